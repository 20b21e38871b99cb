"""A figure of what a query attends to in an image is drawn over the image, each cell over what its patch shows."""

import base64
import io
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.media import image_file
from tests.program import attn

Seeing = Callable[[str], Path]
GREY, WHITE = 0, 255  # of the least and the most
_PICTURE = re.compile(r'<image[^>]*width="([\d.]+)" height="([\d.]+)"[^>]*base64,([^"]+)"')


def pictures(svg: str) -> list[tuple[float, np.ndarray]]:
    """Width over height of every picture as drawn, and its grey pixels."""
    return [
        (float(width) / float(height), np.array(Image.open(io.BytesIO(base64.b64decode(data))).convert("L")))
        for width, height, data in _PICTURE.findall(svg)
    ]


@pytest.mark.parametrize(
    ("kind", "words", "query", "columns"),
    [
        ("vit", (), "[CLS]", 4),
        ("clip", ("the cat",), "[CLS]", 4),
        ("llava", ("what is here",), "here", 4),
        ("qwen2_vl", ("what is here",), "here", 6),
    ],
)
def test_cells_lie_on_the_patches_that_they_are_of(
    kind: str, words: tuple[str, ...], query: str, columns: int, seeing: Seeing, tmp_path: Path
) -> None:
    for place in (1, 2), (3, 0):
        file = image_file(tmp_path / f"{place}.png", bright=place, columns=columns)
        asked = (*words, "-m", seeing(kind), "--image", file, "-t", query, "-l", "-1", "--mean")
        run = attn("matrix", *asked, "-f", "svg")
        assert run.code == 0, run.errors
        (aspect, grey), *others = pictures(run.text)
        assert not others and aspect == pytest.approx(columns / 4, rel=1e-3)
        expected = np.full((4, columns), GREY)
        expected[place] = WHITE
        middles = grey[4::8, 4::8]
        np.testing.assert_allclose(middles, expected, atol=1)
        cells = re.findall(r'fill="#\w+" fill-opacity="0.55" shape', run.text)
        rows, across = (2, 3) if kind == "qwen2_vl" else (4, 4)  # whose text has a token for 2 x 2 patches
        assert len(cells) == rows * across + 32  # and the bar of colours
        assert "a cell for each patch of the image" in run.text and "queries down" not in run.text


@pytest.mark.parametrize("kind", ["vit_mae", "llava_next"])
def test_a_picture_without_a_map_says_so(kind: str, seeing: Seeing, tmp_path: Path) -> None:
    file = image_file(tmp_path / "a.png", bright=(1, 2))
    asked = ["what is here?"] if kind == "llava_next" else []
    run = attn("matrix", *asked, "-m", seeing(kind), "--image", file, "-l", "-1", "--mean", "-t", "0", "-f", "svg")
    assert run.code == 0 and not pictures(run.text)
    assert f"patches of the picture have no map ({kind}): its tokens keep their names" in run.errors
