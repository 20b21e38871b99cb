"""Why a weight is what it is: the products of one query and one key, and what becomes of their sum."""

from collections.abc import Sequence

import numpy as np
from rich.segment import Segment

from attn_cli.explore.panes.lines import Line, cell_line, filled, line, parts_line, short_label
from attn_cli.explore.scene import Scene, Size
from attn_cli.explore.viewpoint import Viewpoint
from attn_cli.recording import Terms
from attn_cli.views.drawing.bars import bar_style, signed_bar
from attn_cli.views.drawing.cells import BOLD, DIM, PLAIN

_COLUMNS = (6, 9, 9, 9, 9)
_NARROW = (4, 7, 7, 8, 8)  # where the screen has less than 60 columns


def draw(scene: Scene, view: Viewpoint, size: Size) -> list[Line]:
    """The lines on the score of one query and key: the products of their dimensions, largest first, and the sum."""
    layer, (width, height) = scene.layer(view), size
    terms = layer.terms(view.head, view.query, view.key)
    query, key = short_label(layer.queries, view.query), short_label(layer.keys, view.key)
    title = [scene.title(view), f"query {query} -> key {key}"]
    status = cell_line(scene, view, width)
    if terms.products is None:
        body = [line("the model shows its weights alone here: no queries and keys were recorded", width)]
        sums = ""
    else:
        title.append(f"{len(terms.products)} dimensions, largest first")
        heading = line(_row(("dim", "q", "k", "q·k", "sum"), width), width, DIM)
        body, sums = [heading, *_products(terms, width, height - 4, scene.screen.depth)], _sums(terms)
    return [parts_line(title, width, BOLD), *filled(body, height - 3), line(sums, width, BOLD), status]


def _products(terms: Terms, width: int, lines: int, depth: str) -> list[Line]:
    """The largest products with their running sum, and what the others add up to."""
    assert terms.products is not None and terms.q is not None and terms.k is not None
    products = terms.products.astype(np.float64)
    order = np.argsort(-np.abs(products), kind="stable")
    order = order[: max(lines - 1, 1)] if len(order) > lines else order
    running = np.cumsum(products[order])
    most, room = float(np.abs(products).max(initial=0.0)), max(min(40, width - len(_row(("",) * 5, width)) - 3), 4)
    drawn: list[Line] = []
    for d, total in zip(order.tolist(), running.tolist(), strict=True):
        product = float(products[d])
        numbers = _row((d, float(terms.q[d]), float(terms.k[d]), product, total), width)
        drawn.append([Segment(numbers + "  ", PLAIN), Segment(signed_bar(product, room, most), bar_style(depth))])
    if left := len(products) - len(order):
        rest = _row(("rest", "", "", float(products.sum() - running[-1]), float(products.sum())), width)
        drawn.append(line(f"{rest}  {left} others", width))
    return drawn


def _row(cells: Sequence[object], width: int) -> str:
    columns = _COLUMNS if width >= 60 else _NARROW
    texts = [f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in cells]
    return "".join(text.rjust(size) for text, size in zip(texts, columns, strict=True))


def _sums(terms: Terms) -> str:
    assert terms.products is not None
    total = float(terms.products.astype(np.float64).sum())
    words = f"sum {total:.2f} x {terms.scale:.4g}"
    if terms.softcap is not None:
        words = f"{terms.softcap:g} tanh({words} / {terms.softcap:g})"
    if terms.bias is not None:
        words += f" + bias {terms.bias:.2f}"
    if terms.score is None:
        return f"{words} · weight {terms.weight:.4f}"
    if np.isneginf(terms.score):
        return f"{words} · masked: weight 0"
    if terms.log_sum is None:
        return f"{words} = score {terms.score:.2f} · weight {terms.weight:.4f}"
    return f"{words} = score {terms.score:.2f} · exp(score - log sum {terms.log_sum:.2f}) = weight {terms.weight:.4f}"
