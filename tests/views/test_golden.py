"""The main screens at three widths and four colour depths, byte for byte, as somebody looked at them and approved."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.program import attn

SENTENCE = "he sat on the river bank"
# 46 words of the built-in table: more than any of the three widths shows with numbers, more than 40 rows.
LONG = (
    "it was the best of times it was the worst of times it was the age of wisdom it was the age of reason "
    "it was the season of light it was the season of darkness it was the spring of hope it was the winter"
)
DEPTHS = {
    "truecolor": {"TERM": "xterm-256color", "COLORTERM": "truecolor"},
    "256": {"TERM": "xterm-256color"},
    "16": {"TERM": "xterm"},
    "none": {"TERM": "xterm", "NO_COLOR": "1"},
}
SCREENS: dict[str, tuple[str, ...]] = {
    "inspect": ("inspect", SENTENCE),
    "matrix": ("matrix", SENTENCE, "-H", "0"),
    "scores": ("matrix", SENTENCE, "-H", "0-1", "--scores"),
    "long": ("matrix", LONG, "--mean"),
    "top": ("top", SENTENCE, "-k", "3", "--mean"),
    "overall": ("top", SENTENCE, "--overall"),
    "long-top": ("top", f"{LONG} {LONG}", "--mean"),
    "one-query": ("top", SENTENCE, "--token", "bank"),
    "why": ("top", SENTENCE, "--token", "bank", "--why", "-k", "2", "-H", "0"),
    "heads": ("heads", SENTENCE),
    "nearest": ("nearest", "king - man + woman"),
    "compare": ("compare", SENTENCE, "the bank gave me a loan", "--word", "bank"),
    "plane": ("plane", SENTENCE, "the bank gave me a loan"),
    "learn": ("learn", "I love apple phone", "an apple phone is no fruit", "--word", "apple", "--to", "phone"),
}
Golden = Callable[[str, str], None]


def on_screen(*arguments: str, width: int, depth: str, encoding: str = "utf-8") -> str:
    run = attn(*arguments, terminal=True, encoding=encoding, env={"COLUMNS": str(width)} | DEPTHS[depth])
    assert (run.code, run.errors) == (0, "")
    return run.bytes.decode(encoding)


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("name", SCREENS)
def test_plain_screens(name: str, width: int, golden: Golden) -> None:
    text = on_screen(*SCREENS[name], width=width, depth="none")
    assert "\x1b" not in text
    assert max(len(line) for line in text.splitlines() if not line.startswith("next: ")) <= width
    golden(f"{name}-{width}.txt", text)


@pytest.mark.parametrize("depth", ["truecolor", "256", "16"])
@pytest.mark.parametrize("name", ["inspect", "scores", "long", "plane", "learn"])
def test_coloured_screens(name: str, depth: str, golden: Golden) -> None:
    golden(f"{name}-80-{depth}.ansi", on_screen(*SCREENS[name], width=80, depth=depth))


def test_a_terminal_without_unicode(golden: Golden) -> None:
    text = on_screen(*SCREENS["long"], width=80, depth="none", encoding="ascii")
    golden("long-80-ascii.txt", text)


def test_compute(golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("q.csv").write_text("1,0\n0,1\n1,1\n")
    arguments = ("compute", "--q", "q.csv", "--mask", "causal")
    golden("compute-80.txt", on_screen(*arguments, width=80, depth="none"))
    golden("compute-80-truecolor.ansi", on_screen(*arguments, width=80, depth="truecolor"))


@pytest.mark.parametrize("suffix", ["html", "svg"])
def test_pages(suffix: str, golden: Golden) -> None:
    command = "matrix" if suffix == "html" else "top"  # a matrix as svg is a figure
    golden(f"{command}.{suffix}", attn(command, SENTENCE, "-H", "0", "-f", suffix).text)
