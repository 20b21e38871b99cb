"""Scores and weights as heat maps, or on an image as maps of its patches."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from attn_cli.prompt import Token, later_pieces
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.matrix import Matrix
from attn_cli.summaries.report import Report
from attn_cli.summaries.told.overview import told_head
from attn_cli.views.drawing.cells import BOLD, packed
from attn_cli.views.drawing.heatmap import HeatMap, arranged, kind_of
from attn_cli.views.drawing.image import query_maps
from attn_cli.views.drawing.image_grid import image_grids
from attn_cli.views.drawing.labels import head_choice, head_name, place_prefix, text_with_mark, token_label, which_heads
from attn_cli.views.drawing.panels import ColoredText
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.text_layout import LATER_PIECE
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import on_same_input


def draw(matrix: Matrix, summary: Summary, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """A map per head of queries and keys; of picked queries that attend to an image, a map of the image."""
    if (out := matrix.chosen) is not None:
        stream = "" if summary.place.stream == "self" else f"{summary.place.stream} "
        said = f"{stream}head {out.name}{' ·' if out.rows else ':'} {out.sentence}"
        yield from ("", Text("\n".join(packed([said], screen.width)), BOLD))
    grids = image_grids(summary.keys) if matrix.rows is not None and matrix.block == (1, 1) else []
    if grids:
        yield from query_maps(summary, matrix, grids, place_prefix(summary, report), report, screen)
    else:
        yield from arranged(list(matrix_maps(matrix, summary, report, screen)), screen)


def heat_maps(report: Report, screen: Screen) -> Iterator[HeatMap]:
    """The maps of all matrices of a report; of what is told first, the cell: of rows that read, the heaviest."""
    drawn = (part for summary, matrix in report.parts_of(Matrix) for part in draw(matrix, summary, report, screen))
    head = told_head(report)
    for part in (part for part in drawn if isinstance(part, HeatMap)):
        if head is not None and part.block == (1, 1) and not part.image and head["key"] < len(part.columns):
            rows = [head["query"]] if report.story is None else report.story["rows"]
            part = replace(part, marked=(max(rows, key=part.values[:, head["key"]].__getitem__), head["key"]))
        yield part


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: the keys that the rows of the matrix attend to most; None for piped input."""
    summary, matrix = next(report.parts_of(Matrix))
    first = matrix.rows is not None and list(matrix.rows) == [0]  # it may see itself alone
    rows = [] if matrix.rows is None or first else invocation.words({"token"})
    head = head_name(summary, 0) if matrix.heads is None else f"{summary.place.layer}.{matrix.heads[0]}"
    layer, head = (head_choice(summary.place.stream, name) for name in (str(summary.place.layer), head))
    which = ["-l", layer, "--mean"] if matrix.averaged else ["-H", head]
    return on_same_input("top", report, invocation, *rows, *which)


def matrix_maps(
    matrix: Matrix, summary: Summary, report: Report, screen: Screen, titles: Mapping[str, str] | None = None
) -> Iterator[HeatMap]:
    """A heat map for each head of a matrix and kind of number in it: scores, weights, shares by value or output."""
    rows = matrix.row_numbers(summary)
    keys = [summary.keys[key] for _, key in matrix.listed_keys(summary)] if matrix.keys else summary.keys
    alone = report.batch is not None and len(matrix.head_names(summary)) == 1
    is_product = summary.rule["scale"] == 1 and not summary.rule["bias"] and summary.rule["softcap"] is None
    numbers = [summary.queries[row].index for row in rows], [key.index for key in keys]
    words = _names([summary.queries[row] for row in rows]), _names(keys)
    titles = titles or {"scores": "scores = q · k" if is_product else "scaled scores"}
    for kind, values in matrix.maps:
        for at, head in enumerate(matrix.head_names(summary)):
            title = titles.get(kind, kind)
            title = title if alone else f"{which_heads(matrix.averaged, head, matrix.by)} · {title}"
            title = place_prefix(summary, report) + title
            shown = _masked(values[at], summary, matrix, rows) if kind != "scores" else values[at]
            pooling = "farthest from 0" if kind == "scores" and matrix.pooling == "max" else matrix.pooling
            how = kind_of(kind, values[at])
            yield HeatMap(shown, how, title, *words, screen, report.scale, matrix.block, pooling, matrix.ends, *numbers)


def _names(tokens: Sequence[Token]) -> list[str]:
    later = zip(tokens, later_pieces(tokens), strict=True)
    return [LATER_PIECE if is_later else text_with_mark(token) for token, is_later in later]


def colored_texts(report: Report) -> Iterator[ColoredText]:
    """For each head the text, coloured by the weights of the one picked row or key; nothing unless one was picked."""
    for summary in report.summaries:
        matrix = summary.part(Matrix)
        if matrix is None or matrix.block != (1, 1) or image_grids(summary.keys):
            continue
        rows, by_key = matrix.row_numbers(summary), matrix.keys is not None and len(matrix.keys) == 1
        if not by_key and (matrix.rows is None or len(rows) != 1):
            continue
        tokens = [summary.queries[row] for row in rows] if by_key else list(summary.keys)
        subject = summary.keys[matrix.keys[0]] if by_key and matrix.keys else summary.queries[rows[0]]
        of_prompt = bool(report.prompts) and all(token in report.prompts[0].tokens for token in tokens)
        for kind, values in matrix.maps:
            for at, head in enumerate(matrix.head_names(summary)):
                row = values[at][:, 0] if by_key else values[at][0]
                what = f"who attends to {token_label(subject)}" if by_key else f"what {token_label(subject)} attends to"
                yield ColoredText(
                    place_prefix(summary, report) + f"{which_heads(matrix.averaged, head, matrix.by)} · {kind}",
                    what,
                    tokens,
                    report.prompts[0].text if of_prompt else None,
                    _without_masked(row, tokens, subject, summary, by_key=by_key),
                    tokens.index(subject) if subject in tokens else None,
                    report.scale,
                    "scores" if kind == "scores" else "weights",
                )


def _without_masked(
    row: np.ndarray, tokens: Sequence[Token], subject: Token, summary: Summary, *, by_key: bool
) -> np.ndarray:
    mask = str(summary.rule["mask"])
    if mask.partition(",")[0] != "causal" or "offset" in mask or subject not in tokens:
        return row
    place, places = tokens.index(subject), np.arange(len(row))
    return np.where(((places < place) if by_key else (places > place)) & (row == 0), np.nan, row)


def _masked(values: np.ndarray, summary: Summary, matrix: Matrix, rows: Sequence[int]) -> np.ndarray:
    """The values `[n, m]` with -inf above the diagonal of a causal mask and before its window, where 0 means masked."""
    first_word, *others = str(summary.rule["mask"]).split(", ")
    square = len(summary.keys) == len(summary.queries) and not matrix.keys
    if not square or first_word != "causal" or any("offset" in word for word in others):
        return values
    height, width = matrix.block
    top = np.array(rows[::height])
    last = np.array([rows[min(at + height, len(rows)) - 1] for at in range(0, len(rows), height)])
    first = np.arange(values.shape[1]) * width
    masked = first > last[:, None]
    for size in (int(found[1]) for word in others if (found := re.fullmatch(r"window (\d+)( on both sides)?", word))):
        masked |= first + width - 1 <= top[:, None] - size
    return np.where(masked & (values == 0), -np.inf, values)
