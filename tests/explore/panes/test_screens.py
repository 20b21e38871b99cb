"""Every pane to the byte; at all sizes it fills the screen; hostile tokens do no harm in any of them."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from attn_cli.explore.frame import draw
from attn_cli.explore.panes.lines import Line, width_of
from attn_cli.explore.session import Session
from attn_cli.recording import Recording
from tests.explore.recordings import recording
from tests.explore.test_session import session, typed

WALKS = {
    "heads": "ljl",
    "thumbnails": "tlj",
    "sorted": "o",
    "matrix": "2kkk",
    "numbers": "2++++",
    "scores": "2x",
    "words": "2uk",
    "text": "3h",
    "column": "3kv",
    "cell": "34",
    "help": "2?",
}
HOSTILE = ("\x1b[31mred", "[bold]bold[/]", "a\u202eb", "\u200b", "你好", "\t", "\r\n", "e\u0301", "\x07", "")


def walked(keys: str, size: tuple[int, int] = (80, 24), depth: str = "none", of: Recording | None = None) -> Session:
    made = session(of or recording(n=30), size=size, depth=depth)
    for key in keys:
        made.press(key, key)
    return made


def text_of(lines: list[Line]) -> str:
    return "".join("".join(part.text for part in line).rstrip() + "\n" for line in lines)


def test_screens(golden: Callable[[str, str], None]) -> None:
    panes = [f"== {name}\n{text_of(draw(walked(keys)))}" for name, keys in WALKS.items()]
    golden("explore-80.txt", "".join(panes))


@pytest.mark.parametrize("depth", ["none", "16", "truecolor"])
@pytest.mark.parametrize("size", [(40, 12), (60, 20), (80, 24), (120, 40), (200, 60)], ids=str)
def test_every_pane_fills_the_screen(size: tuple[int, int], depth: str) -> None:
    for keys in WALKS.values():
        lines = draw(walked(keys, size, depth))
        assert ({width_of(line) for line in lines}, len(lines)) == ({size[0]}, size[1])


def test_two_heads_side_by_side_and_their_difference(golden: Callable[[str, str], None]) -> None:
    made = walked("2", (80, 24), "none")
    typed(made, ":against 1.3")
    pair = text_of(draw(made))
    made.press("d", "d")
    change = text_of(draw(made))
    made.press("3", "3")
    golden("explore-against-80.txt", f"{pair}==\n{change}==\n{text_of(draw(made))}")


def hostile(tokens: tuple[str, ...]) -> Recording:
    """A recording of a text whose tokens could do harm, shown as they would come from a model."""
    made = recording(n=len(tokens), layers=2)
    labels = tuple(
        replace(token, text=text, start=None, end=None) for token, text in zip(made.prompt.tokens, tokens, strict=True)
    )
    layers = tuple(replace(layer, queries=labels, keys=labels) for layer in made.layers)
    return replace(made, prompt=replace(made.prompt, text="".join(tokens), tokens=labels), layers=layers)


@pytest.mark.parametrize("keys", WALKS.values(), ids=WALKS.keys())
def test_hostile_tokens_do_no_harm(keys: str) -> None:
    made = session(hostile(HOSTILE), size=(60, 20), depth="16")
    for key in keys:
        made.press(key, key)
    lines = draw(made)
    assert {width_of(line) for line in lines} == {60}
    text = text_of(lines)
    assert all(character.isprintable() or character == "\n" for character in text)
