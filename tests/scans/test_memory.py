"""A scan stays under --memory, whatever the documents: those without room are named, long ones split."""

import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("datasketches")
pytest.importorskip("pyarrow")
from pyarrow import parquet

from attn_cli.errors import InputError, LimitError
from attn_cli.prompt import EncodedText, Token
from attn_cli.scans.read import shard_texts
from attn_cli.scans.read.poison import PoisonRecords
from attn_cli.scans.read.scan_options import ScanOptions
from attn_cli.scans.read.shard_texts import ShardTexts
from attn_cli.scans.run import memory
from attn_cli.scans.run.scan import scan
from attn_cli.selection import PlannedLayer, Selection
from attn_cli.sources.corpora import Document, RecordPlace
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.source import ModelSource
from tests.scans.corpora import sentences, written
from tests.scans.word_texts import open_words

_WORD = 5  # characters, with the space before it


class Words:
    """Reads a token for each word of five characters, without limit: of a model of one layer with eight heads."""

    positions: int | None = None
    bytes_of_token = 10_000
    batch_size = 8

    def encode(self, texts: Sequence[str]) -> list[EncodedText]:
        every = [np.arange(len(text) // _WORD) for text in texts]
        return [EncodedText(at, np.zeros(len(at), bool), _WORD * at, _WORD * at + _WORD) for at in every]

    def tokens_of(self, text: str) -> list[Token]:
        return [Token(at, "word", at, _WORD * at, _WORD * at + _WORD) for at in range(len(text) // _WORD)]

    def planned_layers(self, selection: Selection) -> list[PlannedLayer]:
        return [PlannedLayer(0, 8)]


def of_words(count: int) -> Document:
    return Document(0, RecordPlace("one.txt", 1), " word" * count)


def texts_of(document: Document, options: ScanOptions) -> tuple[list[int], PoisonRecords]:
    poison = PoisonRecords()
    groups = ShardTexts(Words(), options, poison).groups([document])  # type: ignore[arg-type]
    return [sum(len(encoded.ids) for _, encoded in texts) for texts in groups], poison


def test_a_long_document_is_cut_and_read_part_after_part_in_the_memory_of_a_shard() -> None:
    document, options = of_words(250_000), ScanOptions(chunk=2000)
    tracemalloc.start()
    try:
        counts, _ = texts_of(document, options)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sum(counts) == 250_000 and len(counts) == 5
    assert peak < memory._OF_SHARD


def test_a_text_without_room_is_named_before_all_of_it_is_read() -> None:
    options = memory.within(10**9, Words(), ScanOptions())  # type: ignore[arg-type]
    assert 50_000 < options.longest < 60_000
    counts, poison = texts_of(of_words(options.longest), options)
    assert sum(counts) == options.longest and not poison
    most = f"{options.longest:,}"
    for words, tokens in (
        (options.longest + 1, f"{options.longest + 1:,}"),
        (300_000, f"more than {most}"),
    ):
        counts, poison = texts_of(of_words(words), options)
        assert not sum(counts) and poison.reasons == {"too long": 1}
        assert poison.named[0].detail.startswith(f"{tokens} tokens, and --memory has room for {most}")
    with pytest.raises(LimitError, match=r"8 heads in pieces of 60,000 tokens takes more than the 1\.0 GB") as error:
        memory.within(10**9, Words(), ScanOptions(chunk=60_000))  # type: ignore[arg-type]
    assert "--chunk" in str(error.value.hint)


def test_documents_left_out_for_memory_are_part_of_what_was_scanned(tmp_path: Path) -> None:
    file, folder = written(tmp_path, [*sentences(3, 5, 9), "river bank " * 1000]), str(tmp_path / "scan")
    done = scan(open_words(), str(file), folder, memory=28_000_000)
    assert (done["documents"], done["reasons"]) == (3, {"too long": 1})
    assert scan(open_words(), str(file), folder, memory=28_000_000) == done
    with pytest.raises(InputError, match="another --memory"):
        scan(open_words(), str(file), folder)
    assert scan(open_words(), str(file), str(tmp_path / "more"))["documents"] == 4


def test_parts_of_a_long_document_have_the_numbers_of_the_whole(
    minilm: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, sentences(1, 900, 900))

    def numbers(name: str) -> Any:
        done = scan(ModelSource(minilm), str(file), str(tmp_path / name), selection=Selection(layers=(0,)), chunk=50)
        return done, *(parquet.read_table(tmp_path / name / f"{table}.parquet").to_pandas()
                       for table in ("statistics", "tokens", "examples"))  # fmt: skip

    whole = numbers("whole")
    monkeypatch.setattr(shard_texts, "_READ_TOGETHER", 1000)
    parts = numbers("parts")
    assert whole[0] == parts[0] and whole[0]["records"] == 1
    assert (whole[1]["mean"] - parts[1]["mean"]).abs().max() < 1e-6
    assert whole[2].equals(parts[2])
    assert whole[3].drop(columns="weight").equals(parts[3].drop(columns="weight"))
