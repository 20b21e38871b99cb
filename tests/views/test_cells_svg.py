"""An image has a rectangle for every cell and texts anchored on their cells, so that no font can shift them."""

from xml.etree import ElementTree

from rich.segment import Segment
from rich.style import Style

from attn_cli.views.writers.cells_svg import COLUMN, LIGHT, ROW, svg_of
from tests.program import attn

SVG = "{http://www.w3.org/2000/svg}"


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
