"""Figures: cells have the colours of their numbers, labels touch nothing, fonts are those that conferences take."""

import io
import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from unittest import mock
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from attn_cli.call import Place
from attn_cli.prompt import Prompt, Token
from attn_cli.summaries.reduce import Part, Summary
from attn_cli.summaries.reducers.matrix import Matrix
from attn_cli.summaries.report import Report
from attn_cli.views.drawing import figure, panels
from attn_cli.views.drawing.figure import Sheet, colors, drawn
from attn_cli.views.drawing.heatmap import HeatMap
from attn_cli.views.drawing.image import image_map
from attn_cli.views.drawing.image_grid import ImageGrid, image_grids
from attn_cli.views.drawing.palette import ramp_for
from attn_cli.views.drawing.screen import Screen, largest_map
from attn_cli.views.screens import render
from attn_cli.views.writers.page import PAGE
from tests.explore.recordings import prompt_of, recording
from tests.program import attn, refused
from tests.real_models import SMOL
from tests.views.test_golden import GoldenScreen

NAMES = ["a", "river", "bank"]
WORDS = ["a", "iiii", "Wmmmmmmmmmmmmmmmmmmmmmm", "日本語の文", "↵", "$x$", "🎉", "x\ny", "", "-"]


def map_of(values: np.ndarray, labels: Sequence[str], **more: object) -> HeatMap:
    return HeatMap(values, "weights", "head 0", labels, labels, PAGE, **more)


def sheet_of(draw: Callable[[Sheet], None], width: float = 84, format: str = "png") -> tuple[Sheet, bytes]:
    sheets: list[Sheet] = []
    data = drawn(width, format, lambda sheet: (sheets.append(sheet), draw(sheet))[1])
    return sheets[0], data


def pixel(data: bytes, axes: object, column: float, row: float) -> list[int]:
    """The colour of a place of axes, in their own numbers, in a picture of the sheet."""
    image = Image.open(io.BytesIO(data)).convert("RGB")
    x, y = axes.figure.transFigure.inverted().transform(axes.transData.transform((column, row)))
    return list(image.getpixel((int(x * image.width), int((1 - y) * image.height))))


def boxes(sheet: Sheet, texts: Sequence[object]) -> list[tuple[float, float, float, float]]:
    sheet.figure.set_dpi(300)
    sheet.figure.draw_without_rendering()
    return [text.get_window_extent().extents for text in texts if text.get_text()]


def overlaps(boxes: Sequence[tuple[float, float, float, float]]) -> list[object]:
    pairs = combinations(boxes, 2)
    return [(a, b) for a, b in pairs if all(a[i] < b[i + 2] - 0.5 and b[i] < a[i + 2] - 0.5 for i in (0, 1))]


def test_cells_have_the_colours_of_their_numbers() -> None:
    values = np.array([[1.0, -np.inf, -np.inf], [0.25, 0.75, -np.inf], [0.0, 0.5, 0.5]])
    sheet, data = sheet_of(partial(panels.maps, drawn=[map_of(values, NAMES)]))
    _, axes, bar = sheet.figure.axes
    expected = colors(ramp_for(values, "weights", "linear").levels(values), ramp_for(values, "weights", "linear"))
    for row, column in np.ndindex(3, 3):
        assert pixel(data, axes, column - 0.4, row - 0.4) == expected[row, column].tolist()
    assert expected[2, 0].tolist() == [255, 255, 255] and len(set(expected[0, 1:].ravel())) == 1  # 0 white, masked grey
    assert {text.get_text() for text in axes.texts} == {"1.00", ".25", ".75", "0", ".50"}
    labels = [[text.get_text() for text in each] for each in (axes.get_yticklabels(), axes.get_xticklabels())]
    assert labels == [NAMES, NAMES] and [text.get_text() for text in bar.get_yticklabels()] == ["0", "0.5", "1"]


@pytest.mark.parametrize(
    ("count", "words", "width"), [(1, NAMES, 84), (19, NAMES, 84), (41, WORDS, 174), (69, WORDS, 84), (90, WORDS, 40)]
)
def test_labels_touch_nothing_and_stay_on_the_page(count: int, words: list[str], width: float) -> None:
    labels = [words[at % len(words)] for at in range(count)]
    maps = [map_of(np.random.default_rng(0).random((count, count)), labels, row_numbers=range(count))] * 3
    for several in maps[:1], maps:
        sheet, _ = sheet_of(partial(panels.maps, drawn=several), width)
        axes = [each for each in sheet.figure.axes if each.get_images()]
        every = [text for each in axes for axis in (each.xaxis, each.yaxis) for text in axis.get_ticklabels()]
        found = boxes(sheet, [*every, *sheet.page.texts])
        assert not overlaps(found)
        wide, high = sheet.figure.bbox.extents[2:]
        assert all(x > -1 and right < wide + 1 and y > -1 and top < high + 1 for x, y, right, top in found)


def test_many_tokens_are_pooled_and_counted() -> None:
    values = np.random.default_rng(0).random((80, 80))
    sheet, _ = sheet_of(partial(panels.maps, drawn=[map_of(values, ["x"] * 1436, block=(18, 18))]))
    ticks = [int(at) for at in sheet.figure.axes[1].get_xticks() if 0 <= at <= 1436]
    assert 3 < len(ticks) < 9 and {tick % 100 for tick in ticks} == {0}
    assert any("max over 18 x 18" in text.get_text() for text in sheet.page.texts)


def test_heads_stand_in_the_order_that_was_asked_for(file: str) -> None:
    found = attn("matrix", "-m", file, "-H", "1.2,0.1,1.0", "-f", "svg")
    assert re.findall(r"layer (\d head \d)<", found.text) == ["1 head 2", "0 head 1", "1 head 0"]


def test_a_pdf_has_its_width_truetype_fonts_no_date_and_always_the_same_bytes(tmp_path: Path) -> None:
    for at, width in ("a", "84mm"), ("b", "8.4cm"):
        run = attn("matrix", "the cat sat", "-m", "toy:the-cat-sat", "--width", width, "-o", tmp_path / f"{at}.pdf")
        assert run.code == 0, run.errors
    data = (tmp_path / "a.pdf").read_bytes()
    box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+)", data)
    assert box is not None and float(box[1]) == pytest.approx(84 * 72 / 25.4, abs=0.1)
    assert b"/FontFile2" in data and b"/Type3" not in data and b"/CreationDate" not in data
    assert data == (tmp_path / "b.pdf").read_bytes()


def test_widths_and_commands_that_have_none() -> None:
    refused(attn("matrix", "river bank", "--width", "84mm"), 2, "--width is of a figure")
    for wrong in "wide", "1mm", "1in", "0x1", "9" * 400:
        refused(attn("matrix", "river bank", "--width", wrong, "-f", "svg"), 2, "40 to 999 millimetres")
    refused(attn("inspect", "river bank", "--steps", "-o", "x.png"), 2, "--steps draws none", ".html")
    refused(attn("layers", "-o", "x.pdf"), 2, "this command draws none")


def test_what_is_missing_is_said_before_anything_runs() -> None:
    with mock.patch.dict("sys.modules", {"matplotlib.figure": None}):
        refused(attn("matrix", "x", "-m", "no", "-f", "svg"), 3, "a figure needs", "pip install 'attn-cli[figure]'")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("figure") / "run.attn"
    recording(n=12).save(path)
    return str(path)


COMMANDS = ["top -t 7", "heads", "heads --sort entropy", "heads --key 4", "heads --kinds", "matrix -H 1.2 -t 7"]


@pytest.mark.parametrize("command", [*COMMANDS, "matrix -H 1.2 --key 4"])
def test_commands_on_a_text_have_figures(command: str, file: str) -> None:
    run = attn(*command.split(), "-m", file, "--width", "60.5mm", "-f", "png")
    assert run.code == 0, run.errors
    image = Image.open(io.BytesIO(run.bytes))
    assert image.width == pytest.approx(60.5 / 25.4 * 300, abs=1)
    assert image.info["dpi"] == pytest.approx((300, 300), abs=0.01)


@pytest.mark.parametrize("command", ["plane", "compare"])
def test_commands_on_several_texts_have_figures(command: str) -> None:
    run = attn(command, "river\nbank", "bank loan", "-f", "svg")
    texts = [each.text for each in ElementTree.fromstring(run.text).iter() if each.text]
    assert {"river", "loan"} < set(texts) and texts.count("bank") == 2


def test_top_draws_the_row_that_predicts_and_names_what_no_font_has() -> None:
    with mock.patch.object(figure, "_font_with", lambda letter: ""):
        run = attn("top", "the cat 日 sat", "-m", SMOL, "-H", "8.1", "-f", "svg")
    assert run.text.count("attends to") == 1 and "sat attends to" in run.text and "no font here has 日: " in run.errors
    run = attn("inspect", "the cat sat on the", "-m", SMOL, "-f", "svg")
    assert "the answer's loss with the word hidden" in run.text and "queries down, keys across" in run.text
    refused(attn("plane", "bank", "-f", "svg"), 2, "these points lie on one line")


def test_bars_are_as_long_as_their_numbers() -> None:
    sheet, _ = sheet_of(partial(panels.bars, drawn=[("t", ["23.0  a", "8.1  b", "c"], [-4.0, 2.0, -1.0])]))
    axes = sheet.figure.axes[1]
    assert [bar.get_width() for bar in axes.patches] == [4, 2, 1]
    fills = [bar.get_facecolor() for bar in axes.patches]
    assert fills[0] == fills[2] != fills[1]  # that above 0
    assert [text.get_text() for text in axes.texts] == ["−4.00", "+2.00", "−1.00"]
    assert not overlaps(boxes(sheet, [*axes.texts, *axes.get_yticklabels()]))


@pytest.mark.parametrize(("count", "seed"), [(1, 0), (8, 1), (30, 2)])
def test_words_of_points_touch_no_other_word(count: int, seed: int) -> None:
    ways = np.random.default_rng(seed).normal(size=(count, 2, 2))
    words, texts = [f"word{at}" for at in range(count)], [at % 2 for at in range(count)]
    sheet, _ = sheet_of(partial(panels.points, words=words, texts=texts, ways=ways, axis="xy"))
    shown = [text for text in sheet.figure.axes[1].texts if text.get_text()]
    assert not overlaps(boxes(sheet, shown)) and len(shown) > 0.8 * count
    assert sum(len(marks.get_offsets()) for marks in sheet.figure.axes[1].collections) == 2 * count


def text_of(values: np.ndarray, **more: object) -> panels.ColoredText:
    prompt = prompt_of(len(values))
    return panels.ColoredText("layer 0 head 1", "what 3 the attends to", prompt.tokens, prompt.text, values, **more)


def test_tokens_have_the_colours_of_their_numbers_and_masked_ones_none() -> None:
    values = np.array([0.5, 0.25, 0.25, 0.0, np.nan, np.nan])
    sheet, _ = sheet_of(partial(panels.texts, drawn=[text_of(values, subject=3)]))
    fills = [tuple(box.get_facecolor()) for box in sheet.page.patches]
    assert fills[1] == fills[2] != fills[0] and fills[3][:3] == (1, 1, 1)
    assert [fill[3] for fill in fills] == [1, 1, 1, 1, 0, 0]  # masked ones have no box
    assert [box.get_linewidth() > 0 for box in sheet.page.patches] == [at == 3 for at in range(6)]
    title, *words, heaviest = (text.get_text() for text in sheet.page.texts)
    assert title == "layer 0 head 1 · what 3 the attends to" and words == ["he", "sat", "on", "the", "river", "bank"]
    assert heaviest == "0 he 0.500 · 1 sat 0.250 · 2 on 0.250"


def test_any_text_is_measured_as_it_is_drawn() -> None:
    text, tokens = "日本\nok 🎉 $x$ Wm", []
    for start, end in ((0, 1), (0, 1), (0, 1), (1, 2), (2, 3), (3, 5), (6, 7), (6, 7), (8, 11), (12, 14)):
        tokens.append(Token(len(tokens), text[start:end], start=start, end=end))
    with mock.patch.object(figure, "_font_with", lambda letter: "" if ord(letter) > 0x2FFF else "DejaVu Sans"):
        values = np.linspace(0, 1, len(tokens))
        each = panels.ColoredText("t", "w", tokens, text, values)
        sheet, _ = sheet_of(partial(panels.texts, drawn=[each]), 40)
    words = [word.get_text() for word in sheet.page.texts[1:-1]]
    assert words == ["<U+65E5>", "∙", "∙", "<U+672C>", "↵", "ok", "<U+1F389>", "∙", "$x$", "Wm"]
    assert not overlaps(boxes(sheet, sheet.page.texts[1:-1]))


RULE = {"scale": 0.125, "mask": "no mask", "softcap": None, "bias": False, "sink": False, "softmax": True}
BRIGHT = (3, 9)


def tokens(rows: int, columns: int) -> tuple[Token, ...]:
    places = [(row, column) for row in range(rows) for column in range(columns)]
    patches = [Token(1 + at, f"r{row},c{column}", row=row, column=column) for at, (row, column) in enumerate(places)]
    return (Token(0, "[CLS]", special=True), *patches)


def weights_around(rows: int, columns: int, bright: tuple[int, int] = BRIGHT) -> np.ndarray:
    """A quarter of the weight on [CLS], the rest falling with the square of the distance from one patch."""
    down, across = np.mgrid[0:rows, 0:columns]
    fall = 1.0 / (1 + (down - bright[0]) ** 2 + (across - bright[1]) ** 2)
    weights = np.concatenate([[0.25], 0.75 * fall.ravel() / fall.sum()])
    return weights.round(9)  # whatever order this NumPy adds up in


def report(rows: int, columns: int, part: Part | None = None, command: str = "matrix") -> Report:
    """Attention of [CLS] to an image of so many patches."""
    labels = tokens(rows, columns)
    part = part or Matrix(weights_around(rows, columns)[None, None], None, rows=(0,))
    summary = Summary(Place(11, "vit.attention", (4,), (4,)), labels, labels, RULE, (part,))
    source = {"model": "./vit", "type": "vit", "revision": None, "dtype": "float32", "device": "cpu"}
    return Report(command, source, (Prompt("", labels, files={"image": "cat.png"}),), (summary,))


def test_an_image_of_14_by_14_patches(golden_screen: GoldenScreen) -> None:
    golden_screen("patches", lambda width: render(report(14, 14), Screen(width)))
    assert render(report(14, 14), Screen(80, ascii_only=True)).isascii()


@given(st.integers(2, 90), st.integers(2, 90), st.sampled_from([20, 40, 80, 200]), st.booleans(), st.randoms())
def test_maps_fit_and_keep_the_brightest_patch_in_its_place(rows, columns, width, colour, random) -> None:
    screen = Screen(width, "truecolor" if colour else "none")
    values = np.zeros((rows, columns))
    place = random.randrange(rows), random.randrange(columns)
    values[place] = 1.0
    grid = ImageGrid(np.arange(rows * columns).reshape(rows, columns))
    drawn = image_map(values.ravel(), grid, "weights", "image", report(2, 2), screen)
    step = drawn.block[0]
    assert drawn.block == (step, step)
    assert drawn.values.shape == (-(-rows // step), -(-columns // step))
    assert all(size <= most for size, most in zip(drawn.values.shape, largest_map(screen), strict=True))
    assert [tuple(at) for at in np.argwhere(drawn.values == 1)] == [(place[0] // step, place[1] // step)]
    for line in drawn.lines():
        assert sum(len(segment.text) for segment in line) <= width


def cells(labels: Sequence[Token]) -> list[list[list[int]]]:
    return [grid.cells.tolist() for grid in image_grids(labels)]


def test_what_is_no_whole_image_has_no_grid() -> None:
    whole = tokens(3, 4)
    assert cells(whole) == [[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]]
    assert cells(whole[::-1])[0][0] == [11, 10, 9, 8]
    assert cells(whole[:-1]) == []
    assert cells((*whole, whole[1])) == []  # two images
    assert cells(whole[:1]) == []
