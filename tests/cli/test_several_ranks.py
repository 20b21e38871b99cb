"""Two processes of torchrun share a model: the first one writes what one process alone would, the other is silent."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from tests.media import tokenizer
from tests.packings import SHAPE
from tests.program import attn

TEXT = "the cat sat"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    place = tmp_path_factory.mktemp("shared") / "model"
    LlamaForCausalLM(LlamaConfig(**SHAPE)).save_pretrained(place)
    tokenizer().save_pretrained(place)
    return place


def by_two(*words: object, **env: str) -> subprocess.CompletedProcess[str]:
    """A command of attn in two processes."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return subprocess.run(
        [*launch, "-m", "attn_cli", *map(str, words)], capture_output=True, text=True, timeout=120,
        env={**os.environ, "HF_HUB_OFFLINE": "1", **env},
    )  # fmt: skip


def test_two_ranks_write_one_file_with_the_heads_of_both(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    run = by_two("heads", TEXT, "-m", folder, "-o", file)
    assert run.returncode == 0, run.stderr
    assert run.stdout == "" and "attn:" not in run.stderr
    shared, alone = json.loads(file.read_text()), attn("heads", TEXT, "-m", folder, "--json").json
    assert shared["source"]["model"] == alone["source"]["model"]
    rows = [{(row["layer"], row["head"]): row for row in of["result"]["heads"]} for of in (shared, alone)]
    assert (
        rows[0].keys() == rows[1].keys() and len(rows[0]) == SHAPE["num_hidden_layers"] * SHAPE["num_attention_heads"]
    )
    for place, row in rows[0].items():
        for name, value in row.items():
            assert value == pytest.approx(rows[1][place][name], abs=1e-5), (place, name)
    assert [each.name for each in tmp_path.iterdir()] == ["x.json"]


def test_the_chosen_heads_come_from_whichever_rank_has_them(folder: Path, tmp_path: Path) -> None:
    for head in ("3", "0"):
        words = ("matrix", TEXT, "-m", folder, "-l", "1", "-H", head, "-q")
        run = by_two(*words, "-o", tmp_path / f"{head}.npz")
        assert run.returncode == 0, run.stderr
        assert attn(*words, "-o", tmp_path / f"alone-{head}.npz").code == 0
        shared, alone = (np.load(tmp_path / f"{name}{head}.npz") for name in ("", "alone-"))
        np.testing.assert_allclose(shared["weights"], alone["weights"], atol=1e-5)
        assert shared["heads"].tolist() == [int(head)]


def test_a_screen_is_printed_once(folder: Path) -> None:
    run = by_two("top", TEXT, "-m", folder, "-l", "0", "-k", "1", "-q")
    assert run.returncode == 0, run.stderr
    assert run.stdout == attn("top", TEXT, "-m", folder, "-l", "0", "-k", "1", "-q").text


def test_what_fails_ends_all_with_a_line(folder: Path, tmp_path: Path) -> None:
    run = by_two("heads", TEXT, "-m", folder, "-l", "9", "-o", tmp_path / "x.json")
    assert run.returncode != 0 and "attn: " in run.stderr and "layer 9" in run.stderr
    assert not list(tmp_path.iterdir())
    run = by_two("knock", TEXT, "-m", folder)
    assert run.returncode != 0
    assert "several processes share" in run.stderr and "attn heads, top and matrix work under torchrun" in run.stderr
