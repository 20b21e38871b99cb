"""Keys in, viewpoints out: any keys leave the cursor in the window and the window in the matrix; Esc undoes Enter."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.explore.command_line import LineOrigin
from attn_cli.explore.commands import COMMANDS
from attn_cli.explore.frame import draw
from attn_cli.explore.panes.lines import width_of
from attn_cli.explore.request import Request
from attn_cli.explore.scene import Scene
from attn_cli.explore.session import Outside, Session
from attn_cli.explore.viewpoint import Viewpoint
from attn_cli.recording import Recording
from attn_cli.views.drawing.screen import Screen
from tests.explore.recordings import recording

KEYS = sorted({key for command in COMMANDS for key in command.keys} - {"M", "q", "y", "E", "w", "e", "c", ":", "colon"})
SIZES = ((80, 24), (40, 12), (200, 60), (20, 8))


def session(
    of: Recording | None = None, *, size: tuple[int, int] = (80, 24), depth: str = "truecolor", ascii_only: bool = False
) -> Session:
    screen = Screen(size[0], depth, ascii_only, size[1])
    outside = Outside(
        LineOrigin((), ("-m", "run.attn")), lambda recording, words: None, lambda lines, file, force: None
    )
    scene = Scene(of or recording(), screen)
    scene.judge()
    view = Viewpoint(query=len(scene.recording.layers[0].queries) - 1)
    return Session(scene, outside, view)


def typed(session: Session, line: str) -> Request | None:
    for character in line:
        session.press(character, character)
    return session.press("enter")


def check(session: Session) -> None:
    scene, view = session.scene, session.view
    n, m = scene.size(view)
    assert 0 <= view.at < len(scene.recording.layers)
    assert 0 <= view.head < scene.layer(view).h
    assert 0 <= view.query < n
    assert 0 <= view.key < m
    window = scene.window(view)
    assert 0 <= window.top <= view.query < window.bottom <= n
    assert 0 <= window.left <= view.key < window.right <= m
    assert scene.settled(view) == view
    lines = draw(session)
    assert len(lines) == scene.lines + 1
    assert {width_of(line) for line in lines} == {scene.screen.width}
    assert all(part.style is not None for line in lines for part in line)


@given(
    st.lists(st.sampled_from(KEYS), max_size=25),
    st.sampled_from(SIZES),
    st.sampled_from(("truecolor", "256", "16", "none")),
    st.sampled_from(((True, False, 0), (False, True, 0), (True, False, 6))),
)
def test_any_keys_leave_the_cursor_in_the_window_and_the_window_in_the_matrix(
    keys: list[str], size: tuple[int, int], depth: str, text: tuple[bool, bool, int]
) -> None:
    causal, special, generated = text
    explorer = session(recording(causal=causal, special=special, generated=generated), size=size, depth=depth)
    for key in keys:
        explorer.press(key)
    check(explorer)


@given(st.lists(st.sampled_from(KEYS), max_size=20), st.sampled_from(SIZES))
def test_escape_undoes_enter(keys: list[str], size: tuple[int, int]) -> None:
    explorer = session(size=size)
    for key in keys:
        explorer.press(key)
    explorer.press("escape") if explorer.help_line is not None else None
    before = explorer.view
    explorer.press("enter")
    if explorer.view.pane != before.pane:
        explorer.press("escape")
    assert explorer.view == before


@given(st.lists(st.sampled_from(KEYS), max_size=12), st.sampled_from(SIZES), st.sampled_from(SIZES))
def test_another_size_keeps_the_cursor(keys: list[str], size: tuple[int, int], other: tuple[int, int]) -> None:
    explorer = session(size=size)
    for key in keys:
        explorer.press(key)
    cell = explorer.view.at, explorer.view.head, explorer.view.query, explorer.view.key
    explorer.resize(replace(explorer.scene.screen, width=other[0], height=other[1]))
    assert (explorer.view.at, explorer.view.head, explorer.view.query, explorer.view.key) == cell
    check(explorer)


def test_deeper_and_back() -> None:
    explorer = session()
    panes = []
    for key in ("enter", "enter", "enter", "escape", "escape", "escape", "escape"):
        explorer.press(key)
        panes.append(explorer.view.pane)
    assert panes == ["matrix", "text", "cell", "text", "matrix", "heads", "heads"]


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        (":layer 2", "at", 2),
        (":head 3", "head", 3),
        (":head 2.1", "at", 2),
        (":statistic first", "statistic", "first_weight"),
        (":thumbnails", "thumbnails", True),
        (":no-thumbnails", "thumbnails", False),
    ],
)
def test_commands_are_words(line: str, field: str, value: object) -> None:
    explorer = session()
    typed(explorer, line)
    assert not explorer.message
    assert getattr(explorer.view, field) == value


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (":head 9", "no head '9'"),
        (":bank", "no command 'bank'"),
        (":layer 7", "no layer '7'"),
        (":difference", "is for"),
    ],
)
def test_a_line_that_says_nothing_is_answered_in_words(line: str, message: str) -> None:
    explorer = session()
    before = explorer.view
    typed(explorer, line)
    assert message in explorer.message
    assert explorer.view == before


def test_a_line_is_completed_and_remembered() -> None:
    explorer = session()
    for key in (":", "t", "h"):
        explorer.press(key, key)
    explorer.press("tab")
    assert explorer.entry is not None
    assert explorer.entry.text == "thumbnails"
    explorer.press("enter")
    assert explorer.view.thumbnails
    explorer.press(":", ":")
    explorer.press("up")
    assert explorer.entry.text == "thumbnails"


def test_words_are_found_one_after_the_other() -> None:
    explorer = session()
    explorer.press("3")
    typed(explorer, "/bank")
    first = explorer.view.query
    places = [token.index for token in recording().prompt.tokens if token.text == "bank"]
    assert first == places[0]
    explorer.press("n")
    assert explorer.view.query == places[1]
    explorer.press("N")
    assert explorer.view.query == first
    typed(explorer, "/absent")
    assert "no token 'absent'" in explorer.message


def test_what_was_found_is_where_the_cursor_is_also_among_blocks() -> None:
    explorer = session(recording(n=300))
    explorer.press("2")
    assert explorer.scene.form(explorer.view).rows > 1
    typed(explorer, "/bank#3")
    assert explorer.view.query == [token.index for token in recording(n=300).prompt.tokens if token.text == "bank"][2]
    explorer.press("up")  # a move goes to the heaviest cell of a block
    scene, view = explorer.scene, explorer.view
    assert scene.snapped(view) == view


def test_steps_go_to_the_rows_from_which_the_model_wrote() -> None:
    explorer = session(recording(generated=6))
    explorer.press("2")
    explorer.press("<")
    assert explorer.view.query == 38
    assert "generated" in "".join(part.text for part in draw(explorer)[-2])
    for _ in range(9):
        explorer.press("<")
    assert explorer.view.query == 40 - 6 - 1


def test_another_text_needs_a_model() -> None:
    explorer = session()
    assert typed(explorer, "ehello") is None
    assert "no model" in explorer.message


def test_a_text_is_edited_with_its_line_breaks() -> None:
    explorer = session()
    explorer.outside = replace(explorer.outside, read=lambda text, step: recording())
    text = explorer.scene.recording.prompt.text
    assert "\n" in text
    explorer.press("e", "e")
    explorer.paste(" more\nlines\n")
    request = explorer.press("enter")
    assert request == Request("read", f"{text} more\nlines")
    assert all(width_of(line) == 80 for line in draw(explorer))


@pytest.mark.parametrize("keys", ["", "t", "4"])
def test_a_picture_without_a_figure_is_the_screen(keys: str, tmp_path: Path) -> None:
    explorer = session()
    for key in keys:
        explorer.press(key, key)
    assert typed(explorer, f":write {tmp_path}/x.png") == Request("picture", f"{tmp_path}/x.png")
    explorer.press("2", "2")
    assert typed(explorer, f":write {tmp_path}/x.png") is None  # a head's map is a figure for a paper


def test_what_was_seen_comes_back() -> None:
    explorer = session()
    seen = []
    for keys in ("jjj", "]", "3", "/bank\r", "s", "1"):  # steps that follow one another are one
        seen.append(explorer.view)
        for key in keys:
            explorer.press("enter" if key == "\r" else key, key if key.isprintable() else None)
    for before in reversed(seen):
        explorer.press("U", "U")
        assert explorer.view == before
    explorer.press("ctrl+o", "\x0f")
    assert "nothing to go back to" in explorer.message


@pytest.mark.parametrize(
    ("pane", "key", "said"),
    [
        ("1", "x", "x: scores is for the matrix (2)"),
        ("1", "z", "z: hide is for the matrix (2) and the text (3)"),
        ("3", "t", "t: thumbnails is for all heads (1)"),
        ("2", "Z", "no command has the key Z: ? lists them"),
        ("2", "5", "no command has the key 5: ? lists them"),
    ],
)
def test_a_key_that_does_nothing_says_why(pane: str, key: str, said: str) -> None:
    explorer = session()
    explorer.press(pane, pane)
    before = explorer.view
    explorer.press(key, key)
    assert (explorer.message, explorer.view) == (said, before)


def test_both_sides_of_a_comparison_are_told() -> None:
    explorer = session()
    explorer.press("2", "2")
    typed(explorer, ":against 1.3")
    said = "".join(part.text for part in draw(explorer)[-2])
    here, there = (
        explorer.scene.recording.layers[at].weights(head, slice(39, 40), slice(0, 1))[0, 0]
        for at, head in ((0, 0), (1, 3))
    )
    assert f"{here:.4f} here · {there:.4f} there" in said


def text_of(explorer: Session) -> str:
    return "\n".join("".join(part.text for part in each) for each in draw(explorer))
