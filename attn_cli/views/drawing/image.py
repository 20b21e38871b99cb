"""Attention over an image, drawn as the image is: a cell for each patch."""

from collections.abc import Iterator, Sequence

import numpy as np
from rich.color import Color
from rich.console import RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from attn_cli.call import Call
from attn_cli.prompt import Token
from attn_cli.summaries.reduce import Summary, with_part
from attn_cli.summaries.reducers.keys import Received, mean_received, whole_row
from attn_cli.summaries.reducers.matrix import Matrix
from attn_cli.summaries.report import Report
from attn_cli.views.drawing.cells import DIM, fit, packed_text
from attn_cli.views.drawing.heatmap import HeatMap
from attn_cli.views.drawing.image_grid import ImageGrid, image_grids
from attn_cli.views.drawing.labels import token_label, which_heads
from attn_cli.views.drawing.palette import lit, ramp_for
from attn_cli.views.drawing.screen import Screen, largest_map
from attn_cli.views.drawing.segments import blocks_of

_MARK = (255, 79, 216)  # around the patch under the cursor
_TALL, _AROUND = 54, 6  # rows of half blocks that a picture takes at most; lines above it, seen with it
_OTHERS = 3  # how many keys outside the image are named
_Drawn = tuple[tuple[int | None, int | None], Sequence[int] | None]  # the most rows and keys of a map; rows


def drawn_of_image(rows: Sequence[int] | None, call: Call, most: tuple[int | None, int | None]) -> _Drawn:
    """The largest map of a call, and the rows to draw: of an image its whole row, or those picked, patch by patch."""
    row = None if call.is_causal else whole_row(call.queries)
    rows = [row] if rows is None and row is not None else rows
    return (None, None) if rows is not None and image_grids(call.keys) else most, rows


def query_maps(
    summary: Summary, matrix: Matrix, grids: Sequence[ImageGrid], prefix: str, report: Report, screen: Screen
) -> Iterator[RenderableType]:
    """For every head and picked query its weights as maps of the image's patches; in words those on other keys."""
    for name, values in matrix.maps:
        kind = "scores" if name == "scores" else "weights"  # the colours of shares are those of weights
        for at, head in enumerate(matrix.head_names(summary)):
            head_words = which_heads(matrix.averaged, head, matrix.by)
            for row, query in enumerate(matrix.row_numbers(summary)):
                label = fit(token_label(summary.queries[query]), 24).rstrip()
                cells: np.ndarray = values[at, row]
                for grid in grids:
                    yield ""
                    yield image_map(cells, grid, kind, f"{prefix}{head_words} · {name} of {label}", report, screen)
                if kind == "weights":
                    yield _rest(cells, grids, summary.keys, screen)


def received_maps(report: Report, screen: Screen) -> Iterator[RenderableType]:
    """For self-attention, cross-attention ... a map of an image: the attention that its patches receive."""
    grids = {summary.place.stream: image_grids(summary.keys) for summary in report.summaries}
    for stream, of_stream in grids.items():
        name = "" if stream == "self" else f" · {stream}"
        own = [part for summary, part in with_part(report.summaries, Received) if summary.place.stream == stream]
        for grid in of_stream if own else []:
            yield ""
            title = f"share of attention received · by patch{name}"
            yield image_map(mean_received(own), grid, "weights", title, report, screen)


def image_map(values: np.ndarray, grid: ImageGrid, kind: str, title: str, report: Report, screen: Screen) -> HeatMap:
    """A map of an image with a number of `values` `[m]` for each patch; small screens show the largest of several."""
    cells: np.ndarray = values[grid.cells]
    rows, columns = ([*map(str, range(size))] for size in cells.shape)
    step = max(-(-size // most) for size, most in zip(cells.shape, largest_map(screen), strict=True))
    pooled = blocks_of(np.maximum, cells, (step, step))
    picture = report.prompts[0].picture if len(report.prompts) == 1 and kind == "weights" else None
    lines = list[list[Segment]]()
    if picture is not None and screen.halves:
        levels = ramp_for(pooled, kind, report.scale).levels(pooled)
        tall = _TALL if screen.height is None else min(2 * (screen.height - _AROUND), _TALL)
        side = max(min(tall // len(pooled), screen.width // pooled.shape[1]), 1)
        lines = half_blocks(picture, levels, side, (), screen, report.scale)
    title, block = f"{title} · {grid.name}" if grid.name else title, (step, step)
    return HeatMap(
        pooled, kind, title, rows, columns, screen, report.scale, block, image=True, below=picture, lit=lines
    )


def half_blocks(
    picture: np.ndarray, levels: np.ndarray, side: int, marked: Sequence[int], screen: Screen, scale: str = "sqrt"
) -> list[list[Segment]]:
    """The picture in the light of its patches' levels `[rows, columns]`, in half blocks, `side` for a patch's side."""
    shape = (side * len(levels) + side * len(levels) % 2, side * levels.shape[1])
    places = [np.arange(size) * pixels // size for size, pixels in zip(shape, picture.shape, strict=False)]
    colors, alpha = np.split(lit(picture[np.ix_(*places)], levels, scale), [3], axis=2)
    pixels = np.rint(colors * (alpha / 255) + (255 if screen.light else 16) * (1 - alpha / 255)).astype(np.uint8)
    if marked:
        top, left = (side * at for at in marked)
        patch = pixels[top : top + side, left : left + side]
        patch[0] = patch[-1] = patch[:, 0] = patch[:, -1] = _MARK
    pairs = np.concatenate([pixels[::2], pixels[1::2]], axis=2).tolist()
    halves = [[(Color.from_rgb(*pair[:3]), Color.from_rgb(*pair[3:])) for pair in line] for line in pairs]
    return [[Segment("▀", Style.from_color(*pair)) for pair in line] for line in halves]


def _rest(weights: np.ndarray, grids: Sequence[ImageGrid], keys: Sequence[Token], screen: Screen) -> Text:
    """The share of the row on each image, and the heaviest keys beside them."""
    beside = np.ones(len(keys), bool)
    parts = []
    for grid in grids:
        beside[grid.cells.ravel()] = False
        parts.append(f"on {grid.name or 'the image'} {weights[grid.cells].sum():.3f}")
    order = np.argsort(-np.where(beside, weights, -1.0), kind="stable")[: min(_OTHERS, int(beside.sum()))]
    parts += [f"{fit(token_label(keys[int(key)]), 16).rstrip()} {weights[key]:.3f}" for key in order]
    return packed_text(parts, screen, DIM)
