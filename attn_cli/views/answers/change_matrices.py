"""attn matrix --against: the change of every weight as a map on diverging colours."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from attn_cli.summaries.against.change_matrix import ChangeMatrix
from attn_cli.summaries.calls.image_grid import image_grids
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.report import Report
from attn_cli.views.drawing.heatmap import HeatMap
from attn_cli.views.drawing.image import image_map
from attn_cli.views.drawing.labels import pair_text, place_prefix, token_label, which_heads
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import against_again


def draw(matrix: ChangeMatrix, summary: Summary, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """For each head a map of how its weights change, the other run's less this one's, with queries and keys aligned.

    A + or a - stands before a key of the other or of this text alone. Of a single row that attends to an image which
    both read, a map of the image.
    """
    keys, others = matrix.keys.tolist(), matrix.other_keys.tolist()
    if not len(matrix.rows):
        yield Text(f"{place_prefix(summary, report)}no row has a partner")
        return
    of_both = [at for at, (key, other) in enumerate(zip(keys, others, strict=True)) if min(key, other) >= 0]
    tokens = [summary.keys[keys[at]] for at in of_both]
    grids = image_grids(tokens) if len(matrix.rows) == 1 and matrix.block == (1, 1) else []
    if grids:
        picture = report.prompts[0].picture if report.prompts else None
        query = token_label(summary.queries[int(matrix.rows[0])])
        for at, head in enumerate(summary.head_names(matrix.averaged)):
            title = (
                f"{place_prefix(summary, report)}{which_heads(matrix.averaged, head)} · change of weights of {query}"
            )
            for grid in grids:
                yield ""
                yield image_map(matrix.changes[at, 0][of_both], grid, "change", title, screen, picture=picture)
        return
    columns = []
    for key, other in zip(keys, others, strict=True):
        mine = None if key < 0 else summary.keys[key]
        theirs = None if other < 0 else matrix.other_key_tokens[other]
        sign = "+" if mine is None else "-" if theirs is None else ""
        columns.append(sign + pair_text(mine, theirs, screen))
    rows = [
        pair_text(summary.queries[row], matrix.other_query_tokens[other], screen)
        for row, other in zip(matrix.rows.tolist(), matrix.other_rows.tolist(), strict=True)
    ]
    for at, head in enumerate(summary.head_names(matrix.averaged)):
        yield ""
        yield HeatMap(
            matrix.changes[at],
            "change",
            f"{place_prefix(summary, report)}{which_heads(matrix.averaged, head)} · change of weights",
            rows,
            columns,
            screen,
            block=matrix.block,
            pooling="largest",
            row_numbers=matrix.rows.tolist(),
        )


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: how much every head's weights change, by `attn heads`; None for piped input."""
    return against_again("heads", report, invocation)
