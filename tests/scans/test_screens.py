"""The screens of attn scan show, byte for byte, of documents whose words would be markup and codes to a terminal."""

import random
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from attn_cli.scans import texts
from attn_cli.scans.scan import scan
from attn_cli.selection import Selection
from attn_cli.sources import open_source
from tests.conftest import SCREEN_WIDTHS
from tests.program import attn
from tests.real_models import MINILM
from tests.views.test_golden import GoldenScreen, on_screen

WORDS = [
    "he",
    "sat",
    "on",
    "the",
    "river",
    "bank",
    "[bold]",
    "[/]",
    "\x1b[31m",
    "\u202ebank",
    "\u4e2d\u56fd",
    "loan",
    ".",
]
SCREENS = {
    "overview": ("one",),
    "head": ("one", "--head", "1.6"),
    "against": ("one", "--against", "other", "-k", "4"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two scans, and one that was interrupted after its first part."""
    folder: Path = tmp_path_factory.mktemp("screens")
    (folder / "minilm").symlink_to(MINILM)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(texts, "DOCUMENTS", 20)
        source = open_source("./minilm")
        for seed, name in enumerate(("one", "other", "begun")):
            words = random.Random(seed)
            lines = [" ".join(words.choices(WORDS, k=words.randint(4, 14 + 6 * seed))) for _ in range(30)]
            (folder / f"{name}.txt").write_text("\n".join([*lines, "", "x" * 4000]) + "\n")
            report = (lambda progress: None) if name != "begun" else lambda progress: 1 / (progress.records == 0)
            try:
                scan(source, f"{name}.txt", name, selection=Selection(layers=(0, 1)), report=report)
            except ZeroDivisionError:
                assert name == "begun"
    return folder


@pytest.mark.parametrize("name", SCREENS)
def test_screens(name: str, folder: Path, golden_screen: GoldenScreen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)

    def draw(width: int) -> str:
        text = on_screen("scan", "show", *SCREENS[name], width=width, depth="none")
        assert "\u202e" not in text
        return text

    golden_screen(f"scan-{name}", draw)


def test_a_scan_that_was_interrupted_shows_what_is_there(folder: Path) -> None:
    assert "over 20 documents" in attn("scan", "show", folder / "begun").text
    assert "tokens so far" in attn("scan", "show", folder / "begun").text


@pytest.mark.parametrize("options", [
    ["--sort", "induction"], ["--kind", "first"], ["--head", "0.2"], ["--head", "1.1"],
    ["--against", "other", "--sort", "distance"],
], ids=" ".join)  # fmt: skip
def test_screens_keep_to_the_width(folder: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]) -> None:
    monkeypatch.chdir(folder)
    for columns in SCREEN_WIDTHS:
        run = attn("scan", "show", "one", *options, terminal=True, env={"COLUMNS": str(columns), "NO_COLOR": "1"})
        assert run.code == 0, run.errors
        assert max(len(line) for line in run.lines if not line.startswith("next: ")) <= columns
        assert any(line.startswith("next: attn") for line in run.lines[-2:])
