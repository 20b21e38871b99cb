"""Shared by tests of scans: sentences made by seed, scans in small shards, tables as bytes."""

import random
from pathlib import Path
from typing import Any

import pytest

from attn_cli.scans.kept.folder import ScanFolder
from attn_cli.scans.kept.manifest import ScannedModel, manifest_of
from attn_cli.scans.read import shards
from attn_cli.scans.read.scan_options import ScanOptions
from attn_cli.scans.run.run import Compute, Scan, in_this_process
from attn_cli.sources.corpora import open_corpus
from tests.scans.word_texts import open_words

WORDS = [
    "the", "river", "bank", "money", "water", "boat", "cash", "loan", "fish", ",", "swim", "walk", "city", "street",
    ".", "house", "garden", "quick", "fox", "he",
]  # fmt: skip


def sentences(count: int, least: int = 2, most: int = 12, seed: int = 0) -> list[str]:
    """Sentences of words that tables and models know, some of which come up again."""
    source = random.Random(seed)
    return [" ".join(source.choices(WORDS, k=source.randint(least, most))) for _ in range(count)]


def written(folder: Path, lines: list[str]) -> Path:
    file = folder / "lines.txt"
    file.write_text("\n".join(lines) + "\n")
    return file


def table_scan(file: Path, output: Path, compute: Compute | None = None) -> dict[str, bytes]:
    """The files of a scan of the built-in table, whose shards are computed by `compute`, here without one."""
    source, corpus = open_words(), open_corpus([str(file)])
    options = ScanOptions()
    manifest = manifest_of(ScannedModel(source.about, source.fingerprint()), {}, corpus.fingerprint())
    one = Scan(ScanFolder(str(output)), corpus, manifest, options, source.labels)
    one.run(compute or in_this_process(source, options))
    return files_of(output)


def files_of(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.glob("*.parquet"))}


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(shards, "DOCUMENTS", 3)
