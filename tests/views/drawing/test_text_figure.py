"""A text as a figure: every token in its colour, its own box framed, the width that was asked for."""

from collections.abc import Callable
from xml.etree import ElementTree

import numpy as np
import pytest

from attn_cli.views.drawing.text_figure import ColoredText, text_figure_svg
from tests.explore.recordings import prompt_of, recording
from tests.program import attn

SVG = "{http://www.w3.org/2000/svg}"
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


def test_lines_break_where_the_text_does_and_where_it_is_too_wide() -> None:
    svg = text_figure_svg([text_of(np.full(40, 0.025))], 84)
    boxes = [box for box in drawn(svg, "rect") if box.get("rx")]
    assert len(boxes) == 40
    right = max(float(box.get("x", 0)) + float(box.get("width", 0)) for box in boxes)
    assert right < 84 * 72 / 25.4 - 20  # left of the bar of colours
    lines = sorted({float(box.get("y", 0)) for box in boxes})
    assert len(lines) >= 4  # the text has a line break after every twelfth token


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
