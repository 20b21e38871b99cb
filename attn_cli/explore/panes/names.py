"""Names of heads, tokens and the cell under the cursor on the explorer's screens."""

from collections.abc import Sequence

import numpy as np

from attn_cli.explore.panes.lines import Line, status_line
from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import Viewpoint
from attn_cli.prompt import Token, later_pieces
from attn_cli.views.drawing.cells import fit
from attn_cli.views.drawing.labels import token_label

_TOKEN_COLUMNS = 24
_NARROW = 60  # columns under which a line has no room for words that the pane says anyway


def short_label(tokens: Sequence[Token], at: int, columns: int = _TOKEN_COLUMNS) -> str:
    """A token with its number, cut to `columns` columns; a later piece of a character has a point: "3 語∙"."""
    mark = "∙" if later_pieces(tokens[max(at - 3, 0) : at + 1])[-1] else ""
    return fit(token_label(tokens[at]).replace("\n", "␊") + mark, columns).rstrip()


def cell_line(scene: Scene, view: Viewpoint, width: int) -> Line:
    """The cell under the cursor, in a reversed line: both tokens, the weight, in a single head its score and rank."""
    narrow = width < _NARROW
    layer, columns = scene.layer(view), _TOKEN_COLUMNS // 2 if narrow else _TOKEN_COLUMNS
    query, key = short_label(layer.queries, view.query, columns), short_label(layer.keys, view.key, columns)
    names = f"{query} -> {key}" if narrow else f"query {query} -> key {key}"
    cell = slice(view.query, view.query + 1), slice(view.key, view.key + 1)
    if np.isnan(scene.grid(view).cells(*cell)[0, 0]):
        return status_line([names, "hidden" if bool(layer.allowed(*cell)[0, 0]) else "masked"], width)
    terms = layer.terms(view.head, view.query, view.key)
    seen = int(layer.allowed(cell[0], slice(None)).sum())
    score = [] if terms.score is None else [f"score {terms.score:.2f}"]
    rank = [] if terms.rank is None else [f"rank {terms.rank:,} of {seen:,}"]
    after = view.query + 1
    is_written = after < layer.n and layer.queries[after].generated
    written = [f"generated {short_label(layer.queries, after)}"] if is_written else []
    return status_line([names, f"weight {terms.weight:.4f}", *written, *score, *rank], width)
