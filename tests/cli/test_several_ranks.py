"""Two processes of torchrun share a model: the first one writes what one process alone would, the other is silent."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from attn_cli.selection import ALL, Selection
from tests.cli import a_rank_that_fails, commands_of_a_rank, launches_of_two
from tests.media import tokenizer
from tests.packings import SHAPE
from tests.program import Run, attn
from tests.sources.huggingface.capture import one_rank

TEXT = "the cat sat"
ROOT = Path(__file__).parents[2]


class Shared(NamedTuple):
    """The model, the files that two ranks wrote together, and how each command ended on both."""

    folder: Path
    files: Path
    runs: dict[str, tuple[Run, Run]]


class Launched(NamedTuple):
    """The exit code and the lines of each launch, the folder that none that failed wrote to, and what each rank saw."""

    ended: dict[str, tuple[int, str]]
    written: Path
    seen: list[dict[str, list[list[float]]]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    place = tmp_path_factory.mktemp("shared") / "model"
    shape = SHAPE | {"vocab_size": 20}  # which an older transformers must be able to halve
    LlamaForCausalLM(LlamaConfig(**shape)).save_pretrained(place)
    tokenizer().save_pretrained(place)
    return place


def by_two(module: str, *words: object) -> subprocess.CompletedProcess[str]:
    """A module run in two processes."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return subprocess.run(
        [*launch, "-m", module, *map(str, words)], capture_output=True, text=True, timeout=120,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def of_head(folder: Path, head: int) -> tuple[object, ...]:
    return "matrix", TEXT, "-m", folder, "-l", "1", "-H", str(head), "-q"


def one_key(folder: Path) -> tuple[object, ...]:
    return "top", TEXT, "-m", folder, "-l", "0", "-k", "1", "-q"


@pytest.fixture(scope="module")
def shared(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Shared:
    """All commands in one launch, which takes as long as any of them."""
    files, runs = tmp_path_factory.mktemp("files"), tmp_path_factory.mktemp("runs")
    commands = {
        "heads": ("heads", TEXT, "-m", folder, "-o", files / "x.json"),
        "head 3": (*of_head(folder, 3), "-o", files / "3.npz"),
        "head 0": (*of_head(folder, 0), "-o", files / "0.npz"),
        "top": one_key(folder),
        "knock": ("knock", TEXT, "-m", folder),
    }
    (runs / "commands").write_text(json.dumps([list(map(str, words)) for words in commands.values()]))
    done = by_two(commands_of_a_rank.__name__, runs / "commands", runs)
    assert done.returncode == 0, done.stderr
    ranks = [[Run(code, out.encode(), errors) for code, out, errors in json.loads((runs / rank).read_text())]
             for rank in ("0", "1")]  # fmt: skip
    return Shared(folder, files, dict(zip(commands, zip(*ranks, strict=True), strict=True)))


def test_two_ranks_write_one_file_with_the_heads_of_both(shared: Shared) -> None:
    for run in shared.runs["heads"]:
        assert (run.code, run.bytes) == (0, b"") and "attn:" not in run.errors
    together = json.loads((shared.files / "x.json").read_text())
    alone = attn("heads", TEXT, "-m", shared.folder, "--json").json
    assert together["source"]["model"] == alone["source"]["model"]
    rows = [{(row["layer"], row["head"]): row for row in of["result"]["heads"]} for of in (together, alone)]
    assert (
        rows[0].keys() == rows[1].keys() and len(rows[0]) == SHAPE["num_hidden_layers"] * SHAPE["num_attention_heads"]
    )
    for place, row in rows[0].items():
        for name, value in row.items():
            assert value == pytest.approx(rows[1][place][name], abs=1e-5), (place, name)
    assert sorted(each.name for each in shared.files.iterdir()) == ["0.npz", "3.npz", "x.json"]


@pytest.mark.parametrize("head", [3, 0])
def test_the_chosen_heads_come_from_whichever_rank_has_them(shared: Shared, tmp_path: Path, head: int) -> None:
    assert [run.code for run in shared.runs[f"head {head}"]] == [0, 0]
    assert attn(*of_head(shared.folder, head), "-o", tmp_path / "alone.npz").code == 0
    together, alone = np.load(shared.files / f"{head}.npz"), np.load(tmp_path / "alone.npz")
    np.testing.assert_allclose(together["weights"], alone["weights"], atol=1e-5)
    assert together["heads"].tolist() == [head]


def test_a_screen_is_printed_once(shared: Shared) -> None:
    first, second = shared.runs["top"]
    assert (first.code, second.code, second.bytes) == (0, 0, b"")
    assert first.text == attn(*one_key(shared.folder)).text


def test_what_needs_all_of_the_model_is_refused_on_both(shared: Shared) -> None:
    first, second = shared.runs["knock"]
    assert first.code != 0 and second.code != 0
    assert sorted([bool(first.errors), bool(second.errors)]) == [False, True]  # whichever failed first
    errors = first.errors + second.errors
    assert "several processes share" in errors and "attn heads, top and matrix work under torchrun" in errors


@pytest.fixture(scope="module")
def launched(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Launched:
    """Runs that fail, and a capture in Python, by torchrun's agent and one import of torch."""
    launches, written, seen = (tmp_path_factory.mktemp(name) for name in ("launches", "written", "seen"))
    words = list(map(str, ("heads", TEXT, "-m", folder, "-o", written / "x.json")))
    fails = a_rank_that_fails.__name__
    runs: list[tuple[str, str, list[str]]] = [("no such layer", "attn_cli.cli", [*words, "-l", "9"])]
    runs += [[f"{rank} {by}", fails, [rank, by, *words]] for rank, by in (("0", "limit"), ("1", "limit"), ("1", "bug"))]
    runs += [("capture", one_rank.__name__, [str(folder), str(seen)])]
    (launches / "runs").write_text(json.dumps(runs))
    done = subprocess.run(
        [sys.executable, "-m", launches_of_two.__name__, launches / "runs"],
        env={**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0
    ended = {
        name: (int((launches / f"{name}.code").read_text()), (launches / f"{name}.err").read_text())
        for name, _, _ in runs
    }
    assert ended["capture"][0] == 0, ended["capture"][1]
    return Launched(ended, written, [json.loads((seen / rank).read_text()) for rank in ("0", "1")])


def test_what_fails_ends_all_with_a_line(launched: Launched) -> None:
    code, errors = launched.ended["no such layer"]
    assert code != 0 and errors.count("attn: ") == 1 and "layer 9" in errors
    assert not list(launched.written.iterdir())


@pytest.mark.parametrize(("rank", "by"), [(0, "limit"), (1, "limit"), (1, "bug")])
def test_what_fails_in_one_rank_alone_ends_all_with_its_line(rank: int, by: str, launched: Launched) -> None:
    """In the midst of a pass, where the other rank waits for it."""
    code, errors = launched.ended[f"{rank} {by}"]
    assert code != 0
    (line,) = [line for line in errors.splitlines() if line.startswith("attn: ")]
    assert line == f"attn: rank {rank}: {'planted' if by == 'limit' else 'a bug: ZeroDivisionError: planted'}"
    assert not list(launched.written.iterdir())


def test_two_ranks_see_the_heads_of_one_process(launched: Launched, folder: Path) -> None:
    assert [[row[1] for row in rank["all"]] for rank in launched.seen] == [[0, 1, 0, 1], [2, 3, 2, 3]]
    assert [[row[1] for row in rank["some"]] for rank in launched.seen] == [[0, 0], [3, 3]]
    model = LlamaForCausalLM.from_pretrained(folder).eval()
    for name, chosen in (("all", ALL), ("some", Selection(heads=(0, 3)))):
        both = sorted(row for rank in launched.seen for row in rank[name])
        np.testing.assert_allclose(both, one_rank.seen(model, chosen), atol=1e-5)
