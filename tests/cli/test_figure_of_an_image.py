"""A figure of what a query attends to in an image is drawn over the image, each cell over what its patch shows."""

import base64
import io
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import transformers
from PIL import Image

from attn_cli.sources.huggingface.anatomy.image_grid import picture_read
from attn_cli.sources.huggingface.read.media import read_image
from attn_cli.sources.huggingface.read.processor import without_videos
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


def test_patches_in_a_row_are_put_together(tmp_path: Path) -> None:
    """As SigLIP 2 gets them: `[1, n, numbers]`, channels last in each, the rest filled up."""
    file = image_file(tmp_path / "a.png", bright=(2, 1), rows=3, columns=5, side=16)
    processor = transformers.Siglip2ImageProcessorPil(max_num_patches=16, patch_size=16)
    with without_videos():
        config = transformers.Siglip2VisionConfig(patch_size=16)
    arrays = processor(read_image(str(file)), return_tensors="pt")
    rows, columns = arrays["spatial_shapes"][0].tolist()
    pixels = picture_read(config, arrays, (rows, columns))
    assert pixels.shape == (rows * 16, columns * 16)
    middles = pixels[8::16, 8::16]
    assert np.unravel_index(middles.argmax(), middles.shape) == (
        round(2.5 / 3 * rows - 0.5),
        round(1.5 / 5 * columns - 0.5),
    )


def test_a_crop_lies_on_its_part_of_the_picture(seeing: Seeing, tmp_path: Path) -> None:
    """CLIP resizes the shorter side and takes the middle of the other."""
    file = image_file(tmp_path / "wide.png", bright=(1, 5), columns=8)
    run = attn("matrix", "the cat", "-m", seeing("clip"), "--image", file, "-t", "[CLS]", "-l", "-1", "--mean",
               "-f", "svg")  # fmt: skip
    ((aspect, grey),) = pictures(run.text)
    assert aspect == pytest.approx(1, rel=0.02) and grey.shape == (32, 32)
    assert [tuple(at) for at in np.argwhere(grey[4::8, 4::8] > 200)] == [(1, 3)]


@pytest.mark.parametrize("kind", ["vit_mae", "llava_next"])
def test_a_picture_without_a_map_says_so(kind: str, seeing: Seeing, tmp_path: Path) -> None:
    file = image_file(tmp_path / "a.png", bright=(1, 2))
    asked = ["what is here?"] if kind == "llava_next" else []
    run = attn("matrix", *asked, "-m", seeing(kind), "--image", file, "-l", "-1", "--mean", "-t", "0", "-f", "svg")
    assert run.code == 0 and not pictures(run.text)
    assert f"patches of the picture have no map ({kind}): its tokens keep their names" in run.errors
