"""Every pane to the byte; what the model says next above all of them; hostile tokens do no harm in any."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot

from attn_cli.explore import pictures
from attn_cli.explore.answer import opening
from attn_cli.explore.app import Explorer
from attn_cli.explore.panes import text
from attn_cli.explore.panes.lines import short_label
from attn_cli.explore.pictures import Asked, Grid, Pictures, computed
from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import Viewpoint
from attn_cli.explore.window import Space, forms, window_at
from attn_cli.kernel.definition.mask import dense
from attn_cli.prompt import Prompt, Token
from attn_cli.recording import Recording
from attn_cli.sources import open_source
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.matrix import Matrix, MatrixOf
from attn_cli.summaries.reducers.record import record
from tests.explore.playing import explorer, lines_of, played, scene_of
from tests.explore.recordings import recording, recording_of
from tests.real_models import SMOL

WALKS = {"heads": "ljl", "matrix": "2kkk", "text": "3h", "cell": "34"}
MARY = "When Mary and John went to the store, John gave a drink to Mary and the book to"
HOSTILE = ("\x1b[31mred", "[bold]bold[/]", "a\u202eb", "\u200b", "你好", "\t", "\r\n", "e\u0301", "\x07", "")


@pytest.fixture(scope="module")
def mary() -> Recording:
    made = record(open_source(str(SMOL), predicts=True), MARY, tells=True)
    return replace(made, about={**made.about, "model": "smollm2.gguf"})


def text_of(lines: list[str]) -> str:
    return "".join(f"{line.rstrip()}\n" for line in lines)


def test_screens(golden: Callable[[str, str], None]) -> None:
    panes = [f"== {name}\n{text_of(lines_of(played(explorer(recording(n=30), depth='none'), keys)))}"
             for name, keys in WALKS.items()]  # fmt: skip
    golden("explore-80.txt", "".join(panes))


def test_a_word_that_no_needed_head_brings_leads_to_the_head_that_reads_it(mary: Recording) -> None:
    (rows, story), *_ = mary.told.items()
    alone = [word | {"layer": 2, "head": 1} for word in story["words"][:1]]
    scene = scene_of(replace(mary, told={rows: story | {"words": alone, "heads": []}}))
    assert scene.words == [('"Mary" 14', (2, 1, 18, 14))] and scene.lines[2][1]["text"].endswith("read by")


def test_a_head_of_the_answer_has_the_weight_of_the_row_that_chooses_it(mary: Recording) -> None:
    scene = scene_of(replace(mary, told={"16,17,18": next(iter(mary.told.values())) | {"rows": [16, 17, 18]}}))
    at, head, weight = scene.bringing[0]
    assert weight == pytest.approx(mary.layers[at].weights(head, slice(18, 19), slice(14, 15))[0, 0])


def test_the_first_screen_says_what_comes_next_and_the_next_word_opens_its_head(
    mary: Recording, golden: Callable[[str, str], None]
) -> None:
    app = explorer(mary, depth="none")
    app.view = app.scene.settled(opening(app.scene))
    words = app.scene.words
    assert app.view.query == 18
    first, second = lines_of(played(app, "")), lines_of(played(again(app), " \r"))
    assert first[0].startswith('next "John" 43% · needs "Mary" 14 by 23.3, "John" 3 by 23.0, "book" 17 by ')
    assert lines_of(played(again(app), "/John\r"))[1].startswith("head 23.3 · what query 3 John attends to")
    assert second[1].startswith(f"head {app.scene.head_label(*words[1][1][:2])} · weights")
    golden("explore-first-80.txt", text_of(first) + text_of(second))

    async def clicks(app: Explorer, pilot: Pilot[int]) -> None:
        await pilot.click("#answer", offset=(first[0].index(words[2][0]), 0))
        assert (app.view.at, app.view.head, app.view.query, app.view.key) == words[2][1]
        await pilot.press("tab")
        assert "heads by entropy" in lines_of(app)[1] and "• answer 7" in "\n".join(lines_of(app))

    played(again(app), clicks)


def again(app: Explorer) -> Explorer:
    made = explorer(app.scene.recording, depth="none")
    made.view = app.view
    return made


@pytest.mark.parametrize("size", [(40, 12), (200, 60), (3, 1)], ids=str)
def test_the_first_screen_at_all_sizes(size: tuple[int, int], mary: Recording) -> None:
    lines = lines_of(played(explorer(mary, size), "2"))
    assert len(lines) == size[1] and ("next" in lines[0]) == (size[1] > 8)
    assert size[1] < 12 or "? keys" in lines[-1]
    heads = "\n".join(lines_of(played(explorer(mary, size), "1")))
    assert ("\n• answer 7" in heads) == (size[1] > 8) and ("23.8 0" in heads) == (size == (200, 60))


def test_a_long_text_is_seen_around_the_cursor_and_around_its_key() -> None:
    scene = scene_of(recording(n=400))
    lines = text.draw(scene, Viewpoint("text", query=399, key=100), scene.size_of("text"))
    marked = [part.text for line in lines[1:] for part in line if part.style and part.style.bold]
    assert marked[:2] == [token.text for token in (scene.recording.prompt.tokens[at] for at in (100, 399))]


@pytest.mark.parametrize(("row", "listed"), [((1, 3e-4, np.nan), [0]), ((2e-4, 3e-4, np.nan), [1, 0])])
def test_weights_that_read_0_are_not_listed(row: object, listed: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scene, "row", lambda *_: np.array(row))
    assert scene_of(recording()).heaviest(Viewpoint(), 8).tolist() == listed


def test_an_image_is_lit_where_the_token_attends() -> None:
    patches = tuple(Token(at, f"r{at // 4},c{at % 4}", row=at // 4, column=at % 4) for at in range(12))
    prompt = Prompt("what", (*patches, Token(12, "what", start=0, end=4)), picture=np.full((30, 40, 3), 255, np.uint8))
    scene, view = scene_of(recording_of(prompt, causal=False)), Viewpoint("text", query=3)
    lines, row = text.draw(scene, view, scene.size_of("text"))[1:], scene.row(view)[:12]
    middles = [lines[at // 4 * 5 + 2][at % 4 * 10 + 5] for at in range(12)]  # of patches of 10 half blocks a side
    light = np.array([sum(cell.style.bgcolor.get_truecolor()) for cell in middles])  # type: ignore[union-attr]
    assert light.max() == 3 * 255 and (np.diff(light[np.argsort(row)]) >= 0).all() and len({*light.tolist()}) > 8
    assert "what" in [part.text for part in lines[0]]


def test_pieces_of_a_character_have_names_of_their_own() -> None:
    pieces = [Token(at, "語", start=0, end=1) for at in range(3)]
    assert [short_label(pieces, at) for at in range(3)] == ["0 語", "1 語∙", "2 語∙"]


@pytest.mark.parametrize("keys", WALKS.values(), ids=WALKS.keys())
def test_hostile_tokens_do_no_harm(keys: str) -> None:
    made = recording(n=len(HOSTILE), layers=2)
    pairs = zip(made.prompt.tokens, HOSTILE, strict=True)
    labels = tuple(replace(token, text=text, start=None, end=None) for token, text in pairs)
    layers = tuple(replace(layer, queries=labels, keys=labels) for layer in made.layers)
    made = replace(made, prompt=replace(made.prompt, text="".join(HOSTILE), tokens=labels), layers=layers)
    lines = lines_of(played(explorer(made, (60, 20), "16"), keys))
    assert all(character.isprintable() for line in lines for character in line)


def test_much_is_blank_until_it_is_computed_in_strips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "AT_ONCE", 5000)
    grid, space = Grid(recording(n=300).layers[0], 1), Space(20, 64, True)
    window = window_at(forms(300, 300, space)[0], (300, 300), space, (0, 0), (0, 0))
    many, asked = Pictures(), Asked(grid, window, False)
    blank = many.picture(asked)
    expected = grid.pooled(slice(0, 300), slice(0, 300), window.form[:2])
    assert not blank.is_computed and blank.values.shape == expected.shape and many.wanted == asked
    seen = iter([True, False])
    assert computed(asked, lambda: next(seen)) is None
    picture = computed(asked, lambda: True)
    assert picture is not None
    many.keep(asked, picture)
    assert many.picture(asked) is picture and picture.is_computed
    np.testing.assert_allclose(picture.values, expected, rtol=1e-5)


SPACES = st.builds(Space, st.integers(1, 60), st.integers(8, 200), st.booleans())
SIZES = st.integers(1, 3000)


@given(SIZES, SIZES, SPACES)
def test_the_first_step_shows_all_and_each_is_finer(n: int, m: int, space: Space) -> None:
    steps = forms(n, m, space)
    down, across = space.capacity(steps[0])
    assert n <= down * steps[0].rows and m <= across * steps[0].keys
    assert len(set(steps)) == len(steps) and steps[-1].number
    areas = [step.rows * step.keys for step in steps]
    assert areas == sorted(areas, reverse=True)


@given(st.data(), SIZES, SIZES, SPACES)
def test_a_window_holds_the_cursor_and_as_many_cells_as_fit(data: st.DataObject, n: int, m: int, space: Space) -> None:
    form = data.draw(st.sampled_from(forms(n, m, space)))
    corner = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, m - 1))
    cursor = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, m - 1))
    window = window_at(form, (n, m), space, corner, cursor)
    assert 0 <= window.top <= cursor[0] < window.bottom <= n
    assert 0 <= window.left <= cursor[1] < window.right <= m
    assert window.top % form.rows == window.left % form.keys == 0
    for shown, fits, total, block in zip(window.shape, space.capacity(form), (n, m), form[:2], strict=True):
        assert shown == min(fits, -(-total // block))
    row, column = window.cell_of(*cursor)
    assert 0 <= row < window.shape[0] and 0 <= column < window.shape[1]


def cells(grid: Grid) -> np.ndarray:
    return grid.cells(slice(0, len(grid.layer.queries)), slice(0, len(grid.layer.keys)))


@pytest.mark.parametrize("causal", [True, False])
def test_heads_are_those_of_attn_matrix_and_sinks_left_blank(causal: bool) -> None:
    layer = recording(causal=causal).layers[1]
    masked = ~dense(layer.rule.mask, layer.n, layer.m, like=layer.like)
    part = reduce(layer, MatrixOf()).part(Matrix)
    assert part is not None and part.weights is not None
    for head in range(layer.h):
        expected = np.where(masked, np.nan, part.weights[head])
        np.testing.assert_allclose(cells(Grid(layer, head)), expected, rtol=1e-6, atol=1e-6)
    hidden = cells(Grid(layer, 0, [2]))
    assert np.isnan(hidden[:, 2]).all()
    np.testing.assert_array_equal(np.delete(hidden, 2, 1), np.delete(cells(Grid(layer, 0)), 2, 1))


@given(st.data())
def test_a_block_is_what_its_rows_give_to_its_keys(data: st.DataObject) -> None:
    layer = recording().layers[0]
    grid, scores = Grid(layer, 1, data.draw(st.sampled_from([(), (0, 3)]))), data.draw(st.booleans())
    spans = []
    for total in (len(grid.layer.queries), len(grid.layer.keys)):
        start = data.draw(st.integers(0, total - 1))
        spans.append(slice(start, data.draw(st.integers(start + 1, total))))
    block = data.draw(st.tuples(st.integers(1, 7), st.integers(1, 7)))
    whole = grid.cells(*spans, scores=scores)
    pooled = grid.pooled(spans[0], spans[1], block, scores=scores)
    assert pooled.shape == tuple(-(-size // step) for size, step in zip(whole.shape, block, strict=True))
    for (i, j), value in np.ndenumerate(pooled):
        cell = whole[i * block[0] : (i + 1) * block[0], j * block[1] : (j + 1) * block[1]]
        numbers = cell[~np.isnan(cell)].tolist()
        expected = max(numbers, key=abs) if scores and numbers else sum(numbers) / len(cell) if numbers else np.nan
        np.testing.assert_allclose(value, expected, rtol=1e-5)
