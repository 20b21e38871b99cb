"""The keys that rows of computed matrices give most weight to, in a sentence: of few rows all, of many the sharpest."""

import numpy as np

from attn_cli.prompt import Token
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.matrix import Matrix
from attn_cli.text import counted
from attn_cli.views.drawing.labels import text_with_mark

_FEW = 4  # rows of one head that are told one by one


def strongest_keys(matrix: Matrix, summary: Summary) -> str:
    """`query 0 gives key 2 most, 0.424; query 1 key 0, 0.910`; of more rows the sharpest one, and the key that all give
    most.
    """
    weights = next((values for kind, values in matrix.maps if kind == "weights"), None)
    if weights is None or matrix.block != (1, 1) or matrix.keys is not None or not weights.size:
        return ""
    weights = np.nan_to_num(weights.astype(np.float64))
    queries = [_named("query", summary.queries[row]) for row in matrix.row_numbers(summary)]
    keys = [_named("key", token) for token in summary.keys]
    most = weights.argmax(axis=-1)  # [h, n]
    if len(weights) == 1 and len(queries) <= _FEW:
        most_of = zip(queries, most[0].tolist(), weights[0], strict=True)
        return "; ".join(
            f"{query} gives {keys[key]} most, {row[key]:.3f}" if row[key] else f"{query} sees no key"
            for query, key, row in most_of
        )
    chooses = (weights > 0).sum(axis=-1) > 1  # a row that sees one key gives it all
    sharpest = np.where(chooses, weights.max(axis=-1), -1.0)
    head, row = np.unravel_index(int(sharpest.argmax()), sharpest.shape)
    if not chooses[head, row]:
        return ""
    of_head = f" of head {matrix.head_names(summary)[head]}" if len(weights) > 1 else ""
    key, received = most[head, row], weights.mean(axis=(0, 1))
    mean = (
        f"in the mean of {counted(chooses.size, 'row')} {keys[int(received.argmax())]} gets most, {received.max():.3f}"
    )
    return f"sharpest: {queries[row]}{of_head} gives {keys[key]} {weights[head, row, key]:.3f}; {mean}"


def _named(what: str, token: Token) -> str:
    label = text_with_mark(token).strip()
    return f"{what} {label}" if label.isdigit() else f'"{label}"'
