"""The writers of the heaviest explained key, beside its content and position."""

from dataclasses import replace

from attn_cli.errors import LoadError
from attn_cli.model.score_writers import ReadsWriters
from attn_cli.selection import Selection
from attn_cli.summaries.answers.writers import KeyPicks, writers_of
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.why import Why, WrittenBy
from attn_cli.summaries.report import Report


def with_writers(report: Report, source: object) -> Report:
    """The report with what wrote the query and the key of its heaviest weight, where it explains scores of one row.

    Writers add to the residual stream: the embedding, earlier heads and MLPs, biases. The report is unchanged where
    several rows or heads are explained, in the first layer, for a query that sees one key, and where `source` can't
    tell.
    """
    found = [(summary, why) for summary, why in report.parts_of(Why) if why.cells]
    if len(found) != 1 or not isinstance(source, ReadsWriters) or report.streams != ["self"]:
        return report
    ((summary, why),) = found
    cell = max(why.cells, key=lambda each: each.weight)
    place = summary.place
    if len({(each.head, each.query) for each in why.cells}) > 1 or cell.visible < 2 or place.layer == 0:
        return report
    head = Selection(pairs=((place.layer, place.heads[cell.head]),))
    try:
        cells = writers_of(source, report.prompts[0], head, lambda _: [cell.query], KeyPicks(1, lambda _: [cell.key]))
    except LoadError:  # attention that shows no queries and keys
        return report
    (written,) = cells.cells
    if written.pairs is None:
        return report
    query, key = (tuple(written.of_side(side)) for side in ("query", "key"))
    told = replace(why, written=WrittenBy(cell, written.product, query, key))

    def with_told(each: Summary) -> Summary:
        return replace(each, parts=tuple(told if part is why else part for part in each.parts))

    return replace(report, summaries=tuple(map(with_told, report.summaries)))
