"""Shared by tests of scans: sentences made by seed, scans in small parts, their files as bytes."""

import random
from pathlib import Path

import pytest

from attn_cli.scans import texts

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


def files_of(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "DOCUMENTS", 3)
