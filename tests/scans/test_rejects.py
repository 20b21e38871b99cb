"""Records that can't be scanned are counted and named, and change nothing else."""

from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("pyarrow")
from pyarrow import parquet

from attn_cli.scans.scan import scan
from attn_cli.scans.show import open_scan
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.source import ModelSource
from tests.program import attn
from tests.real_models import MINILM
from tests.scans.word_texts import open_words
from tests.sources.huggingface.conftest import minilm

__all__ = ["minilm"]
MODEL = str(MINILM)
GOOD = ["he sat on the bank .", "the river and the bank of the river", "a boat , a boat"]
BAD = {"not UTF-8": b"caf\xe9 au lait", "empty": b"", "too long": b"bank " * 600, "not finite": b"he fed the parrot"}


@pytest.fixture(scope="module")
def overflowing(minilm):  # type: ignore[no-untyped-def]
    """MiniLM with a number that isn't finite in the embedding of the word parrot."""
    number = minilm.tokenizer.convert_tokens_to_ids("parrot")
    embedding = minilm.model.embeddings.word_embeddings.weight
    with torch.no_grad():
        before = embedding[number].clone()
        embedding[number, 3] = float("inf")
    yield ModelSource(minilm)
    with torch.no_grad():
        embedding[number] = before


def lines(folder: Path, *content: bytes) -> str:
    file = folder / "lines.txt"
    file.write_bytes(b"\n".join(content) + b"\n")
    return str(file)


def test_every_reason_is_counted_and_named_and_changes_no_number(overflowing: ModelSource, tmp_path: Path) -> None:
    good, layers = [line.encode() for line in GOOD], Selection(layers=(0, 1))
    file = lines(
        tmp_path, good[0], BAD["not UTF-8"], BAD["not finite"], good[1], BAD["empty"], BAD["too long"], good[2]
    )
    done = scan(overflowing, file, str(tmp_path / "all"), selection=layers)
    assert (done["documents"], done["records"], done["rejected"]) == (3, 7, 4)
    assert done["reasons"] == dict.fromkeys(BAD, 1)
    rows = parquet.read_table(tmp_path / "all" / "rejects-00000.parquet").to_pylist()
    named = [(row["document"], row["record"], row["reason"]) for row in rows]
    assert named == [(1, 2, "not UTF-8"), (2, 3, "not finite"), (4, 5, "empty"), (5, 6, "too long")]
    assert "602 tokens, and the model reads 512" in rows[-1]["detail"]
    scan(overflowing, lines(tmp_path, *good), str(tmp_path / "good"), selection=layers)
    one, other = (open_scan(str(tmp_path / name)).values("entropy_bits") for name in ("all", "good"))
    np.testing.assert_allclose(one, other, atol=1e-6)


def test_a_text_of_one_token_or_none_has_nothing_to_attend_to(tmp_path: Path) -> None:
    done = scan(open_words(), lines(tmp_path, b"river bank", b"bank", b"xyzzy"), str(tmp_path / "scan"))
    assert (done["documents"], done["reasons"]) == (1, {"one token": 1, "no token": 1})


def test_the_program_says_what_was_left_out_and_why(tmp_path: Path) -> None:
    scanning = "scan", lines(tmp_path, GOOD[0].encode(), b" ", b"river"), "-m", MODEL, "-o"
    done = attn(*scanning, tmp_path / "scan")
    assert "2 documents" in done.text
    assert "1 record could not be scanned (1 empty)" in done.text
    assert "1 empty" in attn("scan", "show", tmp_path / "scan").text
    assert done.code == 0
    assert attn(*scanning, tmp_path / "scan").code == 0
