"""Names of heads, tokens and the cell under the cursor on the explorer's screens."""

from dataclasses import replace

import numpy as np

from attn_cli.explore.panes.lines import REVERSED, Line, full_line, parts_line
from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import Viewpoint
from attn_cli.prompt import Token
from attn_cli.views.drawing.cells import fit
from attn_cli.views.drawing.labels import token_label

_TOKEN_COLUMNS = 24
_NARROW = 60  # columns under which a line has no room for words that the pane says anyway


def head_name(scene: Scene, view: Viewpoint, at: int | None = None, head: int | None = None) -> str:
    """What is shown, as words: "layer 15 head 6", "cross layer 2, mean of 8 heads"."""
    layer = scene.recording.layers[view.at if at is None else at]
    place = layer.place
    stream = "" if place.stream == "self" else f"{place.stream} "
    call = f" call {place.call}" if place.call else ""
    if view.mean and at is None:
        return f"{stream}layer {place.layer}{call}, mean of {layer.h} heads"
    return f"{stream}layer {place.layer}{call} head {place.heads[view.head if head is None else head]}"


def short_label(token: Token, scene: Scene, columns: int = _TOKEN_COLUMNS) -> str:
    """A token with its number, cut to `columns` columns of the screen."""
    label = token_label(token).replace("\n", "␊")
    return fit(label, columns).rstrip()


def against_name(scene: Scene, view: Viewpoint) -> str:
    """The name of the head that the shown one is compared with."""
    assert view.against is not None
    return head_name(scene, view, view.against.at, view.against.head)


def cell_line(scene: Scene, view: Viewpoint, width: int) -> Line:
    """The cell under the cursor, in a reversed line: both tokens, the weight, in a single head its score and rank."""
    parts = _cell_parts(scene, view, narrow=width < _NARROW)
    return full_line(parts_line(parts, width)[0].text, width, REVERSED)


def _cell_parts(scene: Scene, view: Viewpoint, *, narrow: bool) -> list[str]:
    grid, columns = scene.grid(view), _TOKEN_COLUMNS // 2 if narrow else _TOKEN_COLUMNS
    query = short_label(grid.queries[view.query], scene, columns)
    key = short_label(grid.keys[view.key], scene, columns)
    names = f"{query} -> {key}" if narrow else f"query {query} -> key {key}"
    value = float(grid.cells(*_cell(view))[0, 0])
    if view.difference and view.against is not None:
        return [names, "masked" if np.isnan(value) else f"change {value:+.4f}"]
    if np.isnan(value):
        hidden = scene.layer(view).allowed(*_cell(view))
        is_hidden = not view.words and bool(hidden[0, 0])
        return [names, "hidden" if is_hidden else "masked"]
    if view.against is not None:
        change = float(scene.grid(replace(view, difference=True)).cells(*_cell(view))[0, 0])
        return [names, f"{value:.4f} here", "masked there" if np.isnan(change) else f"{value + change:.4f} there"]
    if view.mean or (view.words and scene.has_words(view)):
        return [names, f"weight {value:.4f}"]
    terms = scene.layer(view).terms(view.head, view.query, view.key)
    seen = int(scene.layer(view).allowed(slice(view.query, view.query + 1), slice(None)).sum())
    score = [] if terms.score is None else [f"score {terms.score:.2f}"]
    rank = [] if terms.rank is None else [f"rank {terms.rank:,} of {seen:,}"]
    read = [f"by value {value:.4f}"] if scene.reads_values(view) and view.pane != "cell" else []
    return [names, *read, f"weight {terms.weight:.4f}", *_written(scene, view), *score, *rank]


def _cell(view: Viewpoint) -> tuple[slice, slice]:
    return slice(view.query, view.query + 1), slice(view.key, view.key + 1)


def _written(scene: Scene, view: Viewpoint) -> list[str]:
    queries = scene.layer(view).queries
    following = view.query + 1
    if following < len(queries) and queries[following].generated:
        return [f"generated {short_label(queries[following], scene)}"]
    return []
