"""Keys in, viewpoints out: any keys leave the cursor in the window and the window in the matrix; Esc undoes Enter."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.errors import InputError
from attn_cli.explore.app import COMMANDS
from attn_cli.explore.commands import why_dead
from attn_cli.explore.moves import found
from attn_cli.explore.panes import cell, heads, matrix, text
from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import PANES, Viewpoint
from tests.explore.playing import pressed, scene_of
from tests.explore.recordings import recording
from tests.test_guide import PAGES

KEYS = sorted({key for command in COMMANDS if command.run for key in command.keys})
SIZES = ((80, 24), (40, 12), (200, 60), (20, 8))
DRAWN = {"heads": heads, "matrix": matrix, "text": text, "cell": cell}


def check(scene: Scene, view: Viewpoint) -> None:
    n, m = scene.size(view)
    assert 0 <= view.at < len(scene.recording.layers)
    assert 0 <= view.head < scene.layer(view).h
    window = scene.window(view)
    assert 0 <= window.top <= view.query < window.bottom <= n
    assert 0 <= window.left <= view.key < window.right <= m
    assert scene.settled(view) == view
    for pane, size in scene.sizes(view).items():
        lines = DRAWN[pane].draw(scene, view, size)
        assert len(lines) == size.height
        assert all(part.style is not None for line in lines for part in line)


@given(
    st.lists(st.sampled_from(KEYS), max_size=25),
    st.sampled_from(SIZES),
    st.sampled_from(("truecolor", "256", "16", "none")),
    st.sampled_from(((True, False, 0), (False, True, 0), (True, False, 6))),
)
def test_any_keys_leave_the_cursor_in_the_window_and_the_window_in_the_matrix(
    keys: list[str], size: tuple[int, int], depth: str, of: tuple[bool, bool, int]
) -> None:
    scene = scene_of(recording(causal=of[0], special=of[1], generated=of[2]), size, depth)
    check(scene, pressed(scene, scene.settled(Viewpoint()), keys))


@given(st.lists(st.sampled_from(KEYS), max_size=20), st.sampled_from(SIZES))
def test_escape_undoes_enter(keys: list[str], size: tuple[int, int]) -> None:
    scene = scene_of(size=size)
    before = pressed(scene, scene.settled(Viewpoint()), keys)
    opened = pressed(scene, before, ["enter"])
    assert opened.pane == before.pane or pressed(scene, opened, ["escape"]) == before


@given(st.lists(st.sampled_from(KEYS), max_size=12), st.sampled_from(SIZES), st.sampled_from(SIZES))
def test_another_size_keeps_the_cursor(keys: list[str], size: tuple[int, int], other: tuple[int, int]) -> None:
    scene = scene_of(size=size)
    view = pressed(scene, scene.settled(Viewpoint()), keys)
    resized = replace(scene, screen=replace(scene.screen, width=other[0], height=other[1]), _layouts={})
    settled = resized.settled(view)
    assert replace(settled, form=None, top=0, left=0) == replace(view, form=None, top=0, left=0)
    check(resized, settled)


def test_enter_goes_deeper_and_escape_back() -> None:
    scene, view, panes = scene_of(), Viewpoint(), []
    for key in ("enter", "enter", "enter", "enter", "escape", "escape", "escape", "escape"):
        view = pressed(scene, view, [key])
        panes.append(view.pane)
    assert panes == ["matrix", "text", "cell", "cell", "text", "matrix", "heads", "heads"]


def test_the_next_head_of_a_kind_goes_round_through_its_family() -> None:
    scene = scene_of(recording(n=30))
    heads = [(out.call, out.at) for out in scene.outs if out.kind.words == "focused"]
    assert len(heads) > 1
    view, seen = Viewpoint(), []
    for _ in range(len(heads) + 1):
        view = pressed(scene, view, ["f"])
        seen.append((view.at, view.head))
    assert sorted(seen[:-1]) == sorted(heads) and seen[-1] == seen[0]
    with pytest.raises(InputError, match="no such head"):
        command_of_kind("i")(scene, view, "")


def command_of_kind(key: str):  # type: ignore[no-untyped-def]
    return next(command.run for command in COMMANDS if key in command.keys)


def test_words_are_found_one_after_the_other_also_among_blocks() -> None:
    scene = scene_of(recording(n=300))
    places = [token.index for token in recording(n=300).prompt.tokens if token.text == "bank"]
    view = Viewpoint("matrix")
    assert scene.form(view).rows > 1
    for place in places[:3]:
        view, number = found(scene, view, "bank")
        assert view.query == place
    assert number == f"bank: 3 of {len(places)}"
    assert found(scene, view, "bank", -1)[0].query == places[1]
    assert found(scene, view, "bank#2")[0].query == places[1]
    with pytest.raises(InputError, match="no token 'absent'"):
        found(scene, view, "absent")
    moved = pressed(scene, view, ["up"])  # a move goes to the heaviest cell of a block
    assert scene.snapped(moved) == moved


def test_steps_go_to_the_rows_from_which_the_model_wrote() -> None:
    scene = scene_of(recording(generated=6))
    assert pressed(scene, Viewpoint("matrix", query=39), ["<"]).query == 38
    assert pressed(scene, Viewpoint("matrix", query=39), ["<"] * 10).query == 40 - 6 - 1


def test_a_key_that_does_nothing_says_why() -> None:
    assert why_dead("x", "x") == "x is for the matrix (2)"
    assert why_dead("z", "z") == "z is for the matrix (2) and the text (3)"
    assert why_dead("Z", "Z") == "no command has the key Z: ? lists them"


def test_the_guide_has_a_row_for_every_key() -> None:
    page = PAGES["explore"].read_text("utf-8")
    for each in COMMANDS:
        where = "all" if each.panes == PANES else ", ".join(each.panes)
        assert not each.shown or f"| `{each.shown}` | {each.meaning} | {where} |" in page, each
