"""Figures: the width that was asked for, cells in their places, one scale of colours, fonts that conferences take."""

import re
import struct
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from unittest import mock
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from rich.segment import Segment
from rich.style import Style

from attn_cli.call import Place
from attn_cli.prompt import Prompt, Token
from attn_cli.summaries.calls.image_grid import ImageGrid, image_grids
from attn_cli.summaries.reduce import Part, Summary
from attn_cli.summaries.reducers.matrix import Matrix
from attn_cli.summaries.report import Report
from attn_cli.views.drawing import raster
from attn_cli.views.drawing.figure import figure_svg
from attn_cli.views.drawing.heatmap import HeatMap
from attn_cli.views.drawing.image import image_map
from attn_cli.views.drawing.screen import Screen, largest_map
from attn_cli.views.drawing.text_figure import ColoredText, text_figure_svg
from attn_cli.views.screens import render
from attn_cli.views.writers.cells_svg import COLUMN, LIGHT, ROW, svg_of
from attn_cli.views.writers.page import PAGE
from tests.explore.recordings import prompt_of, recording
from tests.program import attn, refused
from tests.views.test_golden import GoldenScreen

SVG = "{http://www.w3.org/2000/svg}"
POINTS = 120 * 72 / 25.4
NAMES = ["a", "river", "bank"]


def map_of(values: np.ndarray, labels: list[str], **more: object) -> HeatMap:
    return HeatMap(values, "weights", "head 0", labels, labels, PAGE, **more)


def cells_of(svg: str) -> list[ElementTree.Element]:
    rects = ElementTree.fromstring(svg).iter(f"{SVG}rect")
    return [rect for rect in rects if rect.get("fill") not in ("none", "#fff") and rect.get("width") != "6.0"]


def test_every_cell_stands_in_its_row_and_column_and_masked_ones_are_left_out() -> None:
    values = np.array([[1.0, -np.inf, -np.inf], [0.25, 0.75, -np.inf], [0.0, 0.5, 0.5]])
    svg = figure_svg([map_of(values, NAMES)], 84)
    ground, *cells = cells_of(svg)
    assert ground.get("fill") == "#ececec" and len(cells) == 6
    side = float(cells[0].get("width"))
    left, top = (min(float(cell.get(axis)) for cell in cells) for axis in ("x", "y"))
    places = {
        (round((float(cell.get("y")) - top) / side), round((float(cell.get("x")) - left) / side)) for cell in cells
    }
    assert places == {(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)}
    texts = [text.text for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    assert set(NAMES) < set(texts) and {".25", ".75", "1.00"} < set(texts)


def test_large_maps_are_images_and_say_what_was_pooled() -> None:
    svg = figure_svg([map_of(np.random.default_rng(0).random((80, 80)), ["x"] * 240, block=(3, 3))], 84)
    assert not cells_of(svg)[1:] and "data:image/png;base64," in svg and "max over 3 x 3" in svg


def test_a_figure_of_a_command(golden: Callable[[str, str], None]) -> None:
    run = attn("matrix", "the cat sat", "-m", "toy:the-cat-sat", "-f", "svg")
    assert run.code == 0, run.errors
    golden("figure.svg", run.text)
    assert ElementTree.fromstring(run.text).get("width") == "120mm"


@pytest.mark.skipif(find_spec("svg2pdf_py") is None, reason="the extra figure is not installed")
def test_a_pdf_has_its_width_and_embeds_truetype_fonts(tmp_path: Path) -> None:
    file = tmp_path / "a.pdf"
    run = attn("matrix", "the cat sat", "-m", "toy:the-cat-sat", "-o", file)
    assert run.code == 0, run.errors
    data = file.read_bytes()
    box = re.search(rb"/MediaBox \[0 0 ([\d.]+)", data)
    assert box is not None and float(box[1]) == pytest.approx(POINTS, abs=0.1)
    assert b"/FontFile2" in data and b"/Type3" not in data


@pytest.mark.skipif(find_spec("resvg_py") is None, reason="the extra figure is not installed")
def test_figures_and_screens_as_png(tmp_path: Path) -> None:
    figure, screen = tmp_path / "a.png", tmp_path / "b.png"
    assert attn("matrix", "the cat sat", "-m", "toy:the-cat-sat", "-o", figure).code == 0
    assert attn("inspect", "the cat sat", "-m", "toy:the-cat-sat", "-o", screen).code == 0
    data = figure.read_bytes()
    assert struct.unpack(">I", data[16:20])[0] == pytest.approx(120 / 25.4 * 300, abs=1)
    assert data[37:41] == b"pHYs" and struct.unpack(">IIB", data[41:50]) == (11811, 11811, 1)  # 300 dots an inch
    with Image.open(figure) as image:
        image.load()
    assert screen.read_bytes().startswith(b"\x89PNG")


def test_what_is_missing_is_said_before_anything_runs() -> None:
    with mock.patch.object(raster, "find_spec", lambda name: None):
        refused(attn("matrix", "river bank", "-o", "x.png"), 2, "png needs resvg-py", "pip install 'attn-cli[figure]'")
        refused(attn("matrix", "river bank", "-o", "x.pdf"), 2, "pdf needs svg2pdf-py")


def test_every_cell_of_a_map_stands_in_its_column_and_row() -> None:
    image = ElementTree.fromstring(attn("inspect", "he sat on the river bank", "-H", "0", "-f", "svg").bytes)
    cells = [rect for rect in image.iter(f"{SVG}rect") if rect.get("x") and float(rect.get("width", 0)) == 7 * COLUMN]
    assert {float(rect.get("x", 0)) for rect in cells} >= {7 * COLUMN * at for at in range(6)}
    numbers = [
        text for text in image.iter(f"{SVG}text") if (text.text or "").startswith("0.") and len(text.text or "") == 5
    ]
    assert len(numbers) >= 36
    for text in numbers:
        assert text.get("text-anchor") == "middle"


def test_texts_stand_on_their_cells_and_blocks_are_rectangles() -> None:
    lines = [[Segment("1.0 2.0  two words"), Segment("▀", Style(color="#ff0000", bgcolor="#00ff00"))], [Segment("中x")]]
    image = ElementTree.fromstring(svg_of(lines, LIGHT))
    texts = {text.text: float(text.get("x", 0)) for text in image.iter(f"{SVG}text")}
    assert texts == {"1.0": 1.5 * COLUMN, "2.0": 5.5 * COLUMN, "two words": 13.5 * COLUMN, "中x": 1.5 * COLUMN}
    rects = [
        (r.get("fill"), float(r.get("x", 0)), float(r.get("height", "0").rstrip("%"))) for r in image.iter(f"{SVG}rect")
    ]
    assert rects[1:] == [("#00ff00", 18 * COLUMN, ROW), ("#ff0000", 18 * COLUMN, ROW / 2)]


FRAME = "#c2185b"


def text_of(values: np.ndarray, **more: object) -> ColoredText:
    prompt = prompt_of(len(values))
    return ColoredText("layer 0 head 1", "what 3 the attends to", prompt.tokens, prompt.text, values, **more)


def drawn(svg: str, tag: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(svg).iter(f"{SVG}{tag}"))


def test_tokens_have_the_colours_of_their_numbers_and_masked_ones_none() -> None:
    values = np.array([0.5, 0.25, 0.25, 0.0, np.nan, np.nan])
    svg = text_figure_svg([text_of(values, subject=3)], 84)
    boxes = [box for box in drawn(svg, "rect") if box.get("rx")]
    fills = [box.get("fill") for box in boxes]
    assert len(fills) == 4 and fills[1] == fills[2] and len(set(fills)) == 3  # masked ones have no box
    assert [box.get("stroke") for box in boxes] == [None, None, None, FRAME]
    words = [text.text for text in drawn(svg, "text")]
    assert words[:7] == ["layer 0 head 1 · what 3 the attends to", "he", "sat", "on", "the", "river", "bank"]
    assert "0 he 0.500 · 1 sat 0.250 · 2 on 0.250" in words
    assert ElementTree.fromstring(svg).get("width") == "84mm"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("figure") / "run.attn"
    recording(n=12).save(path)
    return str(path)


def test_a_picked_row_or_key_is_a_text(file: str, golden: Callable[[str, str], None]) -> None:
    row = attn("matrix", "-m", file, "-l", "1", "-H", "2", "-t", "7", "-f", "svg")
    assert row.code == 0, row.errors
    golden("figure-text.svg", row.text)
    column = attn("matrix", "-m", file, "-l", "1", "-H", "2", "--key", "4", "-f", "svg")
    assert "who attends to 4 river" in column.text
    boxes = [box for box in drawn(column.text, "rect") if box.get("rx")]
    assert len(boxes) == 12 - 4  # queries before the key can't see it
    several = attn("matrix", "-m", file, "-l", "1", "-H", "2", "-t", "bank", "-t", "7", "-f", "svg")
    assert several.code == 0, several.errors


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
