"""Figures: the width that was asked for, cells in their places, one scale of colours, fonts that conferences take."""

import re
import struct
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from unittest import mock
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image
from rich.segment import Segment
from rich.style import Style

from attn_cli.errors import InputError
from attn_cli.views.drawing import raster
from attn_cli.views.drawing.figure import figure_svg
from attn_cli.views.drawing.heatmap import HeatMap
from attn_cli.views.writers.cells_svg import COLUMN, LIGHT, ROW, svg_of
from attn_cli.views.writers.page import PAGE
from tests.program import attn, refused

SVG = "{http://www.w3.org/2000/svg}"
POINTS = 120 * 72 / 25.4
NAMES = ["a", "river", "bank"]


def map_of(values: np.ndarray, labels: list[str], **more: object) -> HeatMap:
    return HeatMap(values, "weights", "head 0", labels, labels, PAGE, **more)


def cells_of(svg: str) -> list[ElementTree.Element]:
    rects = ElementTree.fromstring(svg).iter(f"{SVG}rect")
    return [rect for rect in rects if rect.get("fill") != "none" and rect.get("width") != "6.0"]


def test_every_cell_stands_in_its_row_and_column_and_masked_ones_are_left_out() -> None:
    values = np.array([[1.0, -np.inf, -np.inf], [0.25, 0.75, -np.inf], [0.0, 0.5, 0.5]])
    svg = figure_svg([map_of(values, NAMES)], 84)
    cells = cells_of(svg)
    assert len(cells) == 6
    side = float(cells[0].get("width"))
    left, top = (min(float(cell.get(axis)) for cell in cells) for axis in ("x", "y"))
    places = {
        (round((float(cell.get("y")) - top) / side), round((float(cell.get("x")) - left) / side)) for cell in cells
    }
    assert places == {(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)}
    texts = [text.text for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    assert set(NAMES) < set(texts) and {".25", ".75", "1.00"} < set(texts)


def test_all_maps_share_one_scale() -> None:
    one, other = (map_of(np.full((2, 2), value), ["a", "b"]) for value in (0.5, 1.0))
    fills = [cell.get("fill") for cell in cells_of(figure_svg([one, other], 84))]
    assert len(set(fills[:4])) == len(set(fills[4:])) == 1 and fills[0] != fills[4]


def test_large_maps_are_images_and_say_what_was_pooled() -> None:
    svg = figure_svg([map_of(np.random.default_rng(0).random((80, 80)), ["x"] * 240, block=(3, 3))], 84)
    assert not cells_of(svg) and "data:image/png;base64," in svg and "max over 3 x 3" in svg


def test_too_many_maps_are_refused() -> None:
    with pytest.raises(InputError, match="1 to 36"):
        figure_svg([map_of(np.eye(2), ["a", "b"])] * 37, 84)


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


@pytest.mark.skipif(find_spec("svg2pdf_py") is None, reason="the extra figure is not installed")
def test_a_character_that_no_font_can_embed_is_its_number_in_a_pdf(monkeypatch: pytest.MonkeyPatch) -> None:
    import svg2pdf_py

    drawn: list[str] = []

    def convert(svg: str, fonts: object) -> bytes:
        drawn.append(svg)
        if "🎉" in svg:  # as where a font of coloured pictures is installed
            raise RuntimeError("PDF conversion error: An error occurred while subsetting a font.")
        return b"%PDF"

    monkeypatch.setattr(svg2pdf_py, "svg_to_pdf", convert)
    assert raster.converted("<svg>a 🎉\ufe0f — 日 → b</svg>", "pdf") == b"%PDF"
    assert drawn[-1] == "<svg>a U+1F389 — 日 → b</svg>"


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
