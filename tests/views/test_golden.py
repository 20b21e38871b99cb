"""The screens, byte for byte, as somebody looked at them and approved; at no width is a line wider than the screen."""

import re
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
    "scores": ("matrix", SENTENCE, "-H", "0", "--scores"),
    "long": ("matrix", LONG, "--mean"),
    "top": ("top", SENTENCE, "-k", "3", "--mean"),
    "overall": ("top", SENTENCE, "--overall"),
    "one-query": ("top", SENTENCE, "--token", "bank"),
    "heads": ("heads", SENTENCE),
    "nearest": ("nearest", "king - man + woman"),
    "compare": ("compare", SENTENCE, "the bank gave me a loan", "--word", "bank"),
    "plane": ("plane", SENTENCE, "the bank gave me a loan"),
    "learn": ("learn", "I love apple phone", "apple phone", "--word", "apple", "--to", "phone"),
    "kinds": ("heads", " ".join(["the bank of the river bank ."] * 8), "--kinds"),
    "scale": ("scale", "--dims", "1,16,64"),
    "cost": (*("cost", "-n", "32000", "--heads", "32", "--kv-heads", "8", "--dim", "128"), *("--layers", "32")),
    "decode": (
        *("compute", "The cat sat down", "-m", "toy:the-cat-sat-down", "--projections", "1", "--heads", "2"),
        *("--kv-heads", "1", "--decode", "-q"),
    ),
    "steps-everything": (
        *("compute", "the cat sat", "-m", "toy:the-cat-sat", "--projections", "7", "--heads", "2"),
        *("--kv-heads", "1", "--mask", "causal", "--sink", "0.5", "--positions", "alibi", "--softcap", "2"),
        *("--steps", "-t", "cat", "-q"),
    ),
}
Golden = Callable[[str, str], None]
GoldenScreen = Callable[[str, Callable[[int], str]], None]


def on_screen(*arguments: str, width: int, depth: str, encoding: str = "utf-8") -> str:
    run = attn(*arguments, terminal=True, encoding=encoding, env={"COLUMNS": str(width)} | DEPTHS[depth])
    assert (run.code, run.errors) == (0, "")
    return run.bytes.decode(encoding)


@pytest.mark.parametrize("name", SCREENS)
def test_plain_screens(name: str, golden_screen: GoldenScreen) -> None:
    golden_screen(name, lambda width: on_screen(*SCREENS[name], width=width, depth="none"))


def test_a_narrow_and_a_coloured_screen(golden: Golden) -> None:
    golden("inspect-40.txt", on_screen(*SCREENS["inspect"], width=40, depth="none"))
    golden("inspect-80-truecolor.ansi", on_screen(*SCREENS["inspect"], width=80, depth="truecolor"))


@pytest.mark.parametrize("name", ["inspect", "scores"])
def test_colours_are_those_that_a_terminal_knows(name: str) -> None:
    kinds = [
        set(re.findall(r"[34]8;([25]);", on_screen(*SCREENS[name], width=80, depth=depth)))
        for depth in ("16", "256", "truecolor")
    ]
    assert kinds[0] == set() and kinds[1] <= {"5"} and kinds[2] <= {"2", "5"}


@pytest.mark.parametrize("name", SCREENS)
def test_a_terminal_without_unicode(name: str) -> None:
    assert on_screen(*SCREENS[name], width=80, depth="none", encoding="ascii").isascii()


def test_compute(golden_screen: GoldenScreen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("q.csv").write_text("1,0\n0,1\n1,1\n")
    arguments = ("compute", "--q", "q.csv", "--mask", "causal")
    golden_screen("compute", lambda width: on_screen(*arguments, width=width, depth="none"))


def test_pages(golden: Golden) -> None:
    golden("matrix.html", attn("matrix", SENTENCE, "-H", "0", "-f", "html").text)
