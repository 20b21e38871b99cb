"""Peak memory of a whole process that reads all layers and heads, over the plain forward pass."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from tests.real_models import SMOL
from tests.tools.benchmarks.timing import peak_mebibytes

_BAR = 64  # MiB of attn heads over the plain pass

_CODE = """
import sys, torch
from tests.tools.benchmarks.models import model_of, tokens
from tests.tools.benchmarks.capture import looked, plain
from attn_cli import HeadStatistics, TopKeys
n, what = int(sys.argv[1]), sys.argv[2]
model, ids = model_of("gpt2", n), tokens(n)
reducers = {"heads": lambda: [HeadStatistics()], "top": lambda: [TopKeys(5)]}
(plain(model, ids) if what == "plain" else looked(model, ids, reducers[what]))()
"""

# The folder of the text and the model, as a person would run both: no cache of keys, and no logits.
_PLAIN = """
import sys, pathlib, torch, transformers
folder = sys.argv[1]
model = transformers.AutoModel.from_pretrained(folder, attn_implementation="sdpa").eval()
text = pathlib.Path(folder, "text.txt").read_text()
ids = transformers.AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt").input_ids
with torch.no_grad():
    model(input_ids=ids, use_cache=False)
"""
_HEADS = """
import os, sys
os.environ["ATTN_CACHE"] = "off"
sys.argv = ["attn", "heads", "--file", f"{sys.argv[1]}/text.txt", "-m", sys.argv[1], "-q"]
from attn_cli.__main__ import main
main()
"""
_UNPACK = """
import sys, pathlib, transformers
folder, name = pathlib.Path(sys.argv[1]).parent, pathlib.Path(sys.argv[1]).name
model = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=name)
del model.config.quantization_config  # its weights are numbers now
model.hf_quantizer = None
model.save_pretrained(sys.argv[2])
transformers.AutoTokenizer.from_pretrained(folder, gguf_file=name).save_pretrained(sys.argv[2])
"""


def rows(_repeats: int, *, quick: bool) -> Iterator[str]:
    """MiB over the plain pass at two lengths: of models of random weights, and of attn heads on SmolLM2."""
    yield from _in_process(quick=quick)
    yield from _whole_command(quick=quick)


def _whole_command(*, quick: bool) -> Iterator[str]:
    """`attn heads` from its start to its end, and the plain pass, in turns: medians of three."""
    from transformers import AutoTokenizer

    yield f"{f'attn heads -m SmolLM2, a whole process, bar {_BAR} MiB':<52} {'n':>8} {'plain MiB':>10} {'over MiB':>9}"
    with tempfile.TemporaryDirectory() as folder:
        peak_mebibytes(_UNPACK, str(SMOL), folder)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        ids = tokenizer(
            "the bank of the old town by the river, where people walk before they go to work. " * 600
        ).input_ids
        for n in (2000,) if quick else (2000, 7800):
            Path(folder, "text.txt").write_text(tokenizer.decode(ids[:n]), "utf-8")
            peaks = [[peak_mebibytes(code, folder) for code in (_PLAIN, _HEADS)] for _ in range(3)]
            plain, heads = (median(each) for each in zip(*peaks, strict=True))
            yield f"{'heads, of the command':<52} {n:8,} {plain:10.0f} {heads - plain:9.0f}"


def _in_process(*, quick: bool) -> Iterator[str]:
    """Reducers on a model of GPT-2's size."""
    yield f"{'peak memory over the plain pass, GPT-2 size':<52} {'n':>8} {'plain MiB':>10} {'over MiB':>9}"
    for n in (4096,) if quick else (8192, 16384):
        # A peak depends on which threads happened to hold memory at once: each is the median of three processes.
        peaks = {
            what: median(peak_mebibytes(_CODE, str(n), what) for _ in range(3)) for what in ("plain", "heads", "top")
        }
        for what in ("heads", "top"):
            yield f"{what:<52} {n:8,} {peaks['plain']:10.0f} {peaks[what] - peaks['plain']:9.0f}"
