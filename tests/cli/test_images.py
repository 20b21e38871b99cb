"""Several --image: each on its grid, as processor and eager attention have them; figures of weights over an image."""

import base64
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from attn_cli.sources.huggingface.read.media import read_image
from attn_cli.sources.huggingface.read.processor import without_videos
from tests.architectures.tiny import each_of
from tests.media import KINDS, image_file
from tests.program import attn, refused

READING = ["llava", "llava_next", "qwen2_vl", "qwen2_5_vl"]
ASKED = "what is here ?"


@pytest.fixture
def pair(tmp_path: Path) -> list[Path]:
    return [
        image_file(tmp_path / "wide.png", bright=(1, 5), columns=8),
        image_file(tmp_path / "small.png", bright=(2, 1)),
    ]


def images(files: list[Path]) -> list[str]:
    return [word for file in files for word in ("--image", str(file))]


def own_inputs(folder: Path, text: str, files: list[Path]) -> Any:
    with without_videos():
        processor = transformers.AutoProcessor.from_pretrained(folder)
    pictures = [read_image(str(file)) for file in files]
    more = {"add_special_tokens": False} if getattr(processor, "chat_template", None) else {}
    return processor(images=pictures, text=[text], return_tensors="pt", **more)


@torch.no_grad()
@pytest.mark.parametrize("kind", each_of(READING, daily="llava qwen2_vl"))
def test_two_images_are_read_as_the_model_reads_them(kind: str, pair: list[Path], tmp_path: Path) -> None:
    folder = KINDS[kind](tmp_path / kind)
    run = attn("matrix", ASKED, "-m", folder, *images(pair), "-q", "-o", tmp_path / "x.npz")
    assert run.code == 0, run.errors
    found = dict(np.load(tmp_path / "x.npz"))
    read = attn("top", ASKED, "-m", folder, *images(pair), "-l", "0", "-H", "0", "--json", "-q").json["input"]
    given = own_inputs(folder, read["text"], pair)
    assert found["text.token_ids"].tolist() == given["input_ids"][0].tolist()
    name = transformers.AutoConfig.from_pretrained(folder).architectures[0]
    model = getattr(transformers, name).from_pretrained(folder, attn_implementation="eager").eval()
    returned = torch.cat(model(**given, output_attentions=True).attentions)
    np.testing.assert_allclose(found["text.weights"], returned.numpy(), atol=3e-5)
    assert read["images"] == [str(file) for file in pair]
    one = [attn("top", ASKED, "-m", folder, "--image", file, "-l", "0", "-H", "0", "--json", "-q") for file in pair]
    labels = [[token["text"] for token in run.json["input"]["tokens"] if "row" in token] for run in one]
    right = [f"{number}:{label}" for number, of in enumerate(labels, 1) for label in of]
    assert (
        bool(right) == (kind != "llava_next") and [token["text"] for token in read["tokens"] if "row" in token] == right
    )


def test_a_tower_names_the_patches_of_each_image(seeing: Callable[[str], Path], tmp_path: Path) -> None:
    """In the tower's first block a patch's key holds its own pixels alone."""
    shown = []
    for bright in (1, 1), (0, 3):
        files = [image_file(tmp_path / f"{at}.png", bright=of) for at, of in enumerate(((0, 0), bright))]
        shown.append(
            attn("matrix", "the cat", "-m", seeing("llava"), *images(files), "--scores", "-l", "0", "--json").json
        )
    scores = [[np.array(of["scores"]) for of in run["tables"]["matrices"] if of["stream"] == "vision"] for run in shown]
    tokens = shown[0]["input"]["streams"]["vision"]
    first, second = (np.median(np.abs(a - b).max(0), 0) for a, b in zip(*scores, strict=True))
    assert not (first > 1e-4).any()
    assert {token["text"] for token, x in zip(tokens, second, strict=True) if x > 1e-4} == {"r1,c1", "r0,c3"}


def test_images_stand_where_the_text_says_and_each_has_its_share(
    pair: list[Path], seeing: Callable[[str], Path], tmp_path: Path
) -> None:
    asked = ("what <image> is <image> here ?", "-m", seeing("llava"), *images(pair), "-l", "1", "-H", "2")
    shown = attn("matrix", *asked, "-t", "here", "--json", "-q").json
    names = [token["text"] for token in shown["input"]["tokens"]]
    assert names[:3] == ["<s>", "what", "1:r0,c0"] and names[18:20] == ["is", "2:r0,c0"] and len(names) == 38
    weights = np.array(shown["tables"]["matrices"][0]["weights"])[0, 0]
    text = attn("matrix", *asked, "-t", "here", "-q").text
    assert f"on image 1 {weights[2:18].sum():.3f} · on image 2 {weights[19:35].sum():.3f}" in text
    assert "weights of 35 here · image 2 · 4 x 4" in text
    run = attn("inspect", *asked, "-q", "-o", tmp_path / "run.attn")
    assert run.code == 0, run.errors
    again = attn("matrix", "-m", tmp_path / "run.attn", "-t", "here", "-q").text
    assert f"on image 1 {weights[2:18].sum():.3f}" in again
    parts = attn("parts", *asked[:7], "--answer", "the cat", "--json", "-q")
    assert {"image 1", "image 2"} <= {part["name"] for part in parts.json["tables"]["parts"]}


def test_models_of_one_image_refuse_two(pair: list[Path], seeing: Callable[[str], Path]) -> None:
    for kind, text in (("vit", []), ("trocr", []), ("clip", ["a cat"]), ("siglip", ["a cat"])):
        refused(attn("heads", *text, "-m", seeing(kind), *images(pair)), 2, "reads one image at a time")
    for marks, said in (("<image>", "1 place for 2 files"), ("<image>" * 3, "3 places for 2 files")):
        refused(attn("heads", f"{marks} a cat", "-m", seeing("llava"), *images(pair)), 2, said)


Seeing = Callable[[str], Path]
GREY, WHITE = 0, 255  # of the least and the most
_PICTURE = re.compile(r'<image[^>]*width="([\d.]+)" height="([\d.]+)"[^>]*base64,([^"]+)"')


def pictures(svg: str) -> list[tuple[float, np.ndarray]]:
    """Width over height of every picture as drawn, and its grey pixels."""
    return [
        (float(width) / float(height), np.array(Image.open(io.BytesIO(base64.b64decode(data))).convert("L")))
        for width, height, data in _PICTURE.findall(svg)
    ]


SEEN = {"vit": ((), "[CLS]"), "clip": (("the cat",), "[CLS]")}
SEEN |= dict.fromkeys(("llava", "qwen2_vl"), (("what is here",), "here"))


@pytest.mark.parametrize("kind", SEEN)
def test_cells_lie_on_the_patches_that_they_are_of(kind: str, seeing: Seeing, tmp_path: Path) -> None:
    (words, query), columns = SEEN[kind], 6 if kind == "qwen2_vl" else 4
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
