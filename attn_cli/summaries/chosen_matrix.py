"""One matrix of many: that of the head that stands out most, with the reason."""

from collections.abc import Sequence
from dataclasses import replace

from attn_cli.model.intervention import HeadPlace
from attn_cli.summaries.reduce import Part, Summary, with_part
from attn_cli.summaries.reducers.kinds.reducer import HeadKinds
from attn_cli.summaries.reducers.matrix import Matrix
from attn_cli.summaries.report import Report
from attn_cli.summaries.standing_out import StandOut, standing_out
from attn_cli.summaries.told.story import head_place, main_head


def with_one_head(summary: Summary) -> Summary:
    """The summary of a call with the weights of one head alone, so that each call's take the memory of one head's."""
    kinds, matrix = summary.part(HeadKinds), summary.part(Matrix)
    if kinds is None or matrix is None or matrix.chosen is not None:
        return summary
    out = next(iter(standing_out([summary])), None) or _most_focused(summary, kinds)
    at = out.at

    def of_head(part: Part) -> Part:
        if not isinstance(part, Matrix):
            return part
        weights = None if part.weights is None else part.weights[[at]]
        return replace(part, weights=weights, heads=(summary.place.heads[at],), chosen=out)

    return replace(summary, parts=tuple(map(of_head, summary.parts)))


def _most_focused(summary: Summary, kinds: HeadKinds) -> StandOut:
    """The head of the strongest keys past sinks, of a call in which none stands out."""
    at, place = int(kinds.peaks.weight.argmax()), summary.place
    weight = float(kinds.peaks.weight[at])
    return StandOut(0, at, place.layer, place.heads[at], None, False, weight, kinds.peaks.uniform, 0, None)


def with_one_matrix(summaries: Sequence[Summary]) -> tuple[Summary, ...]:
    """The summaries of all calls, of which one alone keeps its matrix of weights: that of the head that stands out
    most.
    """
    matrices = with_part(summaries, Matrix)
    best = min((matrix.chosen for _, matrix in matrices if matrix.chosen), key=lambda head: head.order, default=None)
    alone = sum(len(summary.place.heads) for summary in summaries) == 1

    def kept(part: Part) -> list[Part]:
        if not isinstance(part, Matrix):
            return [part]
        return [replace(part, chosen=None) if alone else part] if part.chosen is best else []

    return tuple(
        replace(summary, parts=tuple(x for part in summary.parts for x in kept(part))) for summary in summaries
    )


def with_one_matrix_alone(report: Report) -> Report:
    """The report with one head's matrix: that of the head that brings what its answer needs most, else that stands out
    most.
    """
    head = None if report.story is None else main_head(report.story)
    summaries = report.summaries if head is None else _of_head(report.summaries, head_place(head))
    if head is None or not with_part(summaries, Matrix):
        summaries = with_one_matrix(tuple(map(with_one_head, report.summaries)))
    return replace(report, summaries=summaries)


def _of_head(summaries: Sequence[Summary], place: HeadPlace) -> tuple[Summary, ...]:
    def kept(summary: Summary, part: Part) -> list[Part]:
        if not isinstance(part, Matrix):
            return [part]
        own = summary.place
        if (own.layer, own.stream) != (place.layer, place.stream) or place.head not in own.heads:
            return []
        weights = None if part.weights is None else part.weights[[own.heads.index(place.head)]]
        return [replace(part, weights=weights, heads=(place.head,))]

    return tuple(
        replace(summary, parts=tuple(x for part in summary.parts for x in kept(summary, part))) for summary in summaries
    )
