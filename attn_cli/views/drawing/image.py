"""Attention over an image, drawn as the image is: a cell for each patch."""

from collections.abc import Iterator, Sequence

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from attn_cli.prompt import Prompt, Token
from attn_cli.summaries.calls.image_grid import patch_grid
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.matrix import Matrix
from attn_cli.summaries.reducers.received import Received, mean_received
from attn_cli.views.drawing.cells import fit, packed_text
from attn_cli.views.drawing.heatmap import HeatMap
from attn_cli.views.drawing.labels import token_label, which_heads
from attn_cli.views.drawing.screen import Screen, largest_map
from attn_cli.views.drawing.styles import DIM

_OTHERS = 3  # how many keys outside the image are named


def query_maps(
    summary: Summary, matrix: Matrix, grid: np.ndarray, prefix: str, screen: Screen, scale: str, prompt: Prompt | None
) -> Iterator[RenderableType]:
    """For every head and picked query a map of the image, and a line on the rest of the weight.

    grid    the places of the patches among the keys `[rows, columns]`
    prefix  what the titles begin with: the layer
    prompt  whose image a figure draws below the map; None for none
    """
    first = summary.keys[grid[0, 0]]
    corner = first.row or 0, first.column or 0
    below = None if prompt is None else pixels_of_patches(prompt, summary.place.stream, summary.keys, grid)
    for name, values in matrix.maps:
        kind = "scores" if name == "scores" else "weights"  # the colours of shares are those of weights
        for at, head in enumerate(matrix.head_names(summary)):
            head_words = which_heads(matrix.averaged, head, matrix.by)
            for row, query in enumerate(matrix.row_numbers(summary)):
                label = fit(token_label(summary.queries[query]), 24).rstrip()
                cells: np.ndarray = values[at, row]
                yield ""
                title = f"{prefix}{head_words} · {name} of {label}"
                yield image_map(cells[grid], kind, title, screen, scale, corner=corner, below=below)
                if kind == "weights":
                    yield _rest(cells, grid, summary.keys, screen)


def received_maps(summaries: Sequence[Summary], screen: Screen, scale: str) -> Iterator[RenderableType]:
    """For every stream that has an image a map of what its patches receive, the mean over its layers and heads.

    Layers that see tiles or windows of it alone are left out.
    """
    streams: dict[str, list[Received]] = {}
    grids: dict[str, np.ndarray] = {}
    for summary in summaries:
        part, grid = summary.part(Received), patch_grid(summary.keys)
        if part is not None and grid is not None and not _in_one_piece([summary.keys[at] for at in grid.ravel()]):
            grids[summary.place.stream] = grid
            streams.setdefault(summary.place.stream, []).append(part)
    for stream, parts in streams.items():
        name = "" if stream == "self" else f" · {stream}"
        yield ""
        title = f"share of attention received · by patch{name}"
        yield image_map(mean_received(parts)[grids[stream]], "weights", title, screen, scale)


def image_map(
    values: np.ndarray,
    kind: str,
    title: str,
    screen: Screen,
    scale: str = "linear",
    *,
    corner: tuple[int, int] = (0, 0),
    below: np.ndarray | None = None,
) -> HeatMap:
    """A number `[rows, columns]` for each patch as cells of the image, pooled where it is larger than the screen.

    corner  row and column of the first patch, which are not 0 in a window of an image
    below   the pixels of these patches, for a figure
    """
    rows, columns = values.shape
    most_rows, most_columns = largest_map(screen)
    step = max(-(-rows // most_rows), -(-columns // most_columns))
    if step > 1:
        values = np.maximum.reduceat(values, np.arange(0, rows, step), axis=0)
        values = np.maximum.reduceat(values, np.arange(0, columns, step), axis=1)
    return HeatMap(
        values,
        kind,
        title,
        [str(corner[0] + row) for row in range(rows)],
        [str(corner[1] + column) for column in range(columns)],
        screen,
        scale=scale,
        block=(step, step),
        image=True,
        below=below,
    )


def pixels_of_patches(prompt: Prompt, stream: str, keys: Sequence[Token], grid: np.ndarray) -> np.ndarray | None:
    """The pixels of the patches at `grid` among a stream's keys, as the model saw them; None where they aren't known.

    A token of a text may hold a square of the vision tower's patches; those left over at the edges are in none.
    """
    seen = None if prompt.seen is None else prompt.seen()
    first, last = keys[grid[0, 0]], keys[grid[-1, -1]]
    patches = _extent(prompt.others.get(stream, prompt.tokens))
    if seen is None or 0 in patches:
        return None
    finest = np.max([_extent(tokens) for tokens in (prompt.tokens, *prompt.others.values())], axis=0)
    spans = []
    for axis, (start, end) in enumerate(((first.row, last.row), (first.column, last.column))):
        pixels = seen.shape[axis] // int(finest[axis]) * (int(finest[axis]) // patches[axis])  # of a patch of the keys
        spans.append(slice((start or 0) * pixels, ((end or 0) + 1) * pixels))
    return seen[spans[0], spans[1]]


def _extent(tokens: Sequence[Token]) -> tuple[int, int]:
    """The rows and columns of the image's patches among the tokens; 0 without any."""
    places = [(token.row, token.column) for token in tokens if token.row is not None and token.column is not None]
    return 1 + max((row for row, _ in places), default=-1), 1 + max((column for _, column in places), default=-1)


def _in_one_piece(patches: Sequence[Token]) -> bool:
    """True if patches are those of one tile or window of several."""
    pieces = {patch.piece for patch in patches}
    return len(pieces) == 1 and None not in pieces


def _rest(weights: np.ndarray, grid: np.ndarray, keys: Sequence[Token], screen: Screen) -> Text:
    """The share of the row on the image, and the heaviest keys beside it."""
    beside = np.ones(len(keys), bool)
    beside[grid.ravel()] = False
    parts = [f"on the image {weights[grid].sum():.3f}"]
    order = np.argsort(-np.where(beside, weights, -1.0), kind="stable")[: min(_OTHERS, int(beside.sum()))]
    parts += [f"{fit(token_label(keys[int(key)]), 16).rstrip()} {weights[key]:.3f}" for key in order]
    return packed_text(parts, screen, DIM)
