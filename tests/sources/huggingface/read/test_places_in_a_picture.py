"""Every token of an image lies where it is said to: that part painted over, it changes most."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, reduce
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from attn_cli.picture import Box
from attn_cli.prompt import Token
from attn_cli.sources import open_source
from attn_cli.sources.huggingface.anatomy.picture_places import Placement, placements
from attn_cli.sources.huggingface.read.input_files import ArrayPrompt, as_arguments
from attn_cli.sources.huggingface.read.processor import Processor, arrays_for_forward
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.calls.image_grid import TILED, WHOLE, image_grids
from tests.architectures.tiny import each_of
from tests.media import KINDS
from tests.releases import skip_on_older
from tests.tiled_media import TILED_KINDS, unmixed

SIZE = (70, 150)  # of the picture: no multiple of anything
ALL = {
    **TILED_KINDS,
    **{kind: KINDS[kind] for kind in ("vit", "clip", "llava", "llava_next", "qwen2_vl", "qwen2_5_vl")},
}
NEEDS = {"smolvlm": "num2words", "mistral3": "torchvision", "llava_pixtral": "torchvision"}
IN_TILES = {  # rows and columns of the whole picture's tokens, and of those of its tiles
    "llava_next": ((4, 4), (4, 8)),
    "llava_onevision": ((4, 4), (6, 12)),
    "llava_onevision_shrunk": ((4, 4), (2, 5)),
    "internvl": ((2, 2), (2, 4)),
    "idefics3": ((2, 2), (4, 6)),
    "smolvlm": ((2, 2), (4, 6)),
    "gemma3": ((2, 2), (2, 4)),
}
DAILY = "vit llava qwen2_vl llava_next llava_onevision idefics3"


class Enough(Exception):
    """Ends a forward pass once the text's vectors are known."""


@dataclass(frozen=True, eq=False)
class Seen:
    """A model whose tower mixes nothing, what it read of a picture, and what it reads of others of the same size."""

    source: ModelSource
    processor: Processor
    prompt: ArrayPrompt
    pixels: np.ndarray

    def arrays(self, pixels: np.ndarray) -> dict[str, Any]:
        marked = self.processor.marked_text("what is here ?" if self.processor.reads_text else "", None)
        model = self.source.loaded.model
        return as_arguments(
            model, arrays_for_forward(model, self.processor.arrays(marked, Image.fromarray(pixels))), "the picture"
        )

    @torch.no_grad()
    def vectors(self, arrays: dict[str, Any]) -> np.ndarray:
        """What the first layer of the text reads `[n, d]`: a vector for each token."""
        model, found = self.source.loaded.model, list[torch.Tensor]()

        def note(_: Any, args: Any, keywords: Any) -> None:
            found.append(keywords["inputs_embeds"] if "inputs_embeds" in keywords else args[0])
            raise Enough

        part = model.base_model
        text = getattr(part, "language_model", None) or part.text_model
        hook = text.register_forward_pre_hook(note, with_kwargs=True)
        with suppress(Enough):
            model(**arrays)
        hook.remove()
        return found[0][0].numpy()

    def painted(self, box: Box) -> np.ndarray:
        high, wide = (box.bottom - box.top) / 5, (box.right - box.left) / 5
        pixels = self.pixels.copy()
        rows = slice(max(round(box.top + high), 0), max(round(box.bottom - high), 1))
        columns = slice(max(round(box.left + wide), 0), max(round(box.right - wide), 1))
        pixels[rows, columns] = 255
        return pixels


@cache
def seen(folder: Path, size: tuple[int, int] = SIZE) -> Seen:
    pixels = np.random.default_rng(0).integers(100, 150, (*size, 3), dtype=np.uint8)
    file = folder.parent / f"{folder.name}-{size[0]}.png"
    Image.fromarray(pixels).save(file)
    source = open_source(str(folder), image=str(file))
    assert isinstance(source, ModelSource) and source.reader.processor is not None
    unmixed(source.loaded.model)
    processor = source.reader.processor
    if folder.name == "gemma3" and not hasattr(processor.processor, "images_kwargs"):
        skip_on_older("a processor of gemma3 can't be told to cut crops")
    if folder.name == "gemma3":  # whose class leaves its crops out unless it is asked for them
        processor.processor.images_kwargs = {**processor.processor.images_kwargs, "do_pan_and_scan": True,
                                             "pan_and_scan_min_crop_size": 16}  # fmt: skip
    (prompt,) = source.read(["what is here ?" if processor.reads_text else ""])
    assert isinstance(prompt, ArrayPrompt)
    return Seen(source, processor, prompt, pixels)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pictures")


def folder_of(kind: str, places: Path) -> Path:
    if (package := NEEDS.get(kind)) is not None and find_spec(package) is None:
        pytest.skip(f"the processor of {kind} needs {package}")
    return places / kind if (places / kind).exists() else ALL[kind](places / kind)


def on_the_picture(tokens: Sequence[Token], size: tuple[int, int] = SIZE) -> Iterator[tuple[int, Token, Box]]:
    """Those of which most lies inside, with their places among all."""
    for at, token in enumerate(tokens):
        if token.box is not None:
            down, across = token.box.middle
            if 0 <= down < size[0] and 0 <= across < size[1]:
                yield at, token, token.box


def assert_changes_most(
    model: Seen, before: np.ndarray, at: int, box: Box, known: list[tuple[int, Token, Box]]
) -> None:
    """Painted over, a token changes more than those beside it: of the whole picture, or of its tiles."""
    tokens = model.prompt.tokens
    whole = next((grid.cells.ravel().tolist() for grid in image_grids(tokens)), [])
    others = [other for other, *_ in known if (other in whole) == (at in whole)]
    change = np.abs(model.vectors(model.arrays(model.painted(box))) - before).max(axis=1)
    most = others[int(change[others].argmax())]
    assert most == at and change[at] > 0, f"{tokens[at].text} was painted, {tokens[most].text} changed most"


@pytest.mark.parametrize(
    "kind", each_of([kind for kind in ALL if kind not in ("vit", "clip", "idefics2")], daily=DAILY)
)
def test_the_token_of_the_text_that_changes_most_is_the_one_that_was_painted(kind: str, places: Path) -> None:
    model = seen(folder_of(kind, places))
    tokens = model.prompt.tokens
    before = model.vectors(model.arrays(model.pixels))
    assert len(before) == len(tokens)
    known = list(on_the_picture(tokens))
    assert len(known) >= 0.7 * sum(token.row is not None for token in tokens) > 2
    for at, _, box in known:
        assert_changes_most(model, before, at, box, known)


@pytest.mark.parametrize("kind", each_of(ALL, daily=DAILY))
def test_the_patch_of_the_tower_that_changes_most_is_the_one_that_was_painted(kind: str, places: Path) -> None:
    """By the pixels of the tile that a patch is said to be cut from, without the model."""
    model = seen(folder_of(kind, places))
    tower = model.prompt.others.get("vision") or model.prompt.tokens
    patches = {(token.piece, token.row, token.column): token for token in tower if token.row is not None}
    before = pieces(model, model.arrays(model.pixels))
    for _, token, box in list(on_the_picture(tower))[:: max(len(tower) // 24, 1)]:
        after = pieces(model, model.arrays(model.painted(box)))
        tile = token.piece or 0 if len(before) > 1 else 0
        rows = 1 + max(row for piece, row, _ in patches if len(before) == 1 or piece in (None, tile))
        columns = 1 + max(column for piece, _, column in patches if len(before) == 1 or piece in (None, tile))
        change = np.abs(after[tile] - before[tile]).sum(axis=0)
        high, wide = change.shape[0] // rows, change.shape[1] // columns
        cells = change[: high * rows, : wide * columns].reshape(rows, high, columns, wide).sum(axis=(1, 3))
        assert np.unravel_index(cells.argmax(), cells.shape) == (token.row, token.column), token


def pieces(model: Seen, arrays: dict[str, Any]) -> np.ndarray:
    """The pixels of all tiles `[tiles, 3, height, width]`, put together by the test where they come as patches."""
    pixels = arrays["pixel_values"]
    if pixels.ndim == 2:  # Qwen2-VL: squares of 2 x 2 patches of 8 x 8 pixels, twice in time
        _, rows, columns = arrays["image_grid_thw"][0].tolist()
        squares = pixels.reshape(rows // 2, columns // 2, 2, 2, 3, 2, 8, 8)[..., 0, :, :]
        return squares.permute(4, 0, 2, 5, 1, 3, 6).reshape(1, 3, rows * 8, columns * 8).numpy()
    return (pixels[0] if pixels.ndim == 5 else pixels).numpy()


@pytest.mark.parametrize("kind", each_of(IN_TILES, daily=DAILY))
def test_tiles_are_joined_as_the_picture_is(kind: str, places: Path) -> None:
    model = seen(folder_of(kind, places))
    grids = image_grids(model.prompt.tokens)
    assert [grid.name for grid in grids] == [WHOLE, TILED]
    assert tuple(grid.cells.shape for grid in grids) == IN_TILES[kind]
    for grid in grids:
        middles = np.array([[model.prompt.tokens[at].box.middle for at in row] for row in grid.cells])  # type: ignore[union-attr]
        assert (np.diff(middles[..., 0], axis=0) > 0).all() and (np.diff(middles[..., 1], axis=1) > 0).all()
        boxes = [model.prompt.tokens[at].box for at in grid.cells.ravel()]
        assert grid.box == reduce(Box.around, [box for box in boxes if box is not None])
        assert grid.box.top < 2 and grid.box.left < 2 and grid.box.bottom > SIZE[0] - 3 and grid.box.right > SIZE[1] - 3


def test_mixtures_of_all_patches_have_no_place(places: Path) -> None:
    prompt = seen(folder_of("idefics2", places)).prompt
    assert all(token.box is None and token.row is None for token in prompt.tokens)
    assert len(list(on_the_picture(prompt.others["vision"]))) > 100
    assert any("tokens of the image" in warning for warning in prompt.warnings)


@pytest.mark.parametrize("size", [(20, 64), (64, 20), (300, 90), (33, 400)])
def test_places_hold_for_pictures_of_other_shapes(size: tuple[int, int], places: Path) -> None:
    model = seen(folder_of("llava_next", places), size)
    before = model.vectors(model.arrays(model.pixels))
    known = list(on_the_picture(model.prompt.tokens, size))
    for at, _, box in known[::7]:
        assert_changes_most(model, before, at, box, known)


def test_rows_of_a_pixtral_are_those_of_its_image_processor() -> None:
    images = transformers.PixtralImageProcessorPil(size={"longest_edge": 96}, patch_size={"height": 8, "width": 8})
    (place,) = placements(70, 150, lambda picture: images([picture], return_tensors="pt")["pixel_values"])
    assert place is not None
    assert place.box(Box(0, 0, 48, 96)) == pytest.approx((0, 0, 70, 150), abs=0.1)


def test_what_turns_or_bends_a_picture_has_no_places() -> None:
    def tensor(pixels: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(pixels.astype(np.float32)).permute(2, 0, 1)[None]

    def of(change: Any) -> tuple[Placement | None, ...]:
        return placements(60, 80, lambda picture: tensor(change(np.asarray(picture))))

    (plain,) = of(lambda x: x)
    assert plain == pytest.approx((0, 0, 1, 1), abs=0.05)
    (cropped,) = of(lambda x: x[10:50, 20:60])
    assert cropped == pytest.approx((10, 20, 1, 1), abs=0.1)
    (halved,) = of(lambda x: x[::2, ::4])
    assert halved == pytest.approx((0, 0, 2, 4), abs=2)
    assert of(lambda x: x[:, ::-1]) == (None,)  # mirrored
    assert of(lambda x: x.swapaxes(0, 1)) == (None,)
    assert of(lambda x: np.roll(x, 30, axis=1)) == (None,)
    assert of(lambda x: np.zeros_like(x)) == (None,)
    assert of(lambda x: np.concatenate([x[:, :40], x[:, :40]], axis=1)) == (None,)
    padded = of(lambda x: np.pad(x, ((0, 20), (5, 5), (0, 0))))[0]
    assert padded == pytest.approx((0, -5, 1, 1), abs=0.1)
    assert placements(60, 80, lambda picture: None) == ()
