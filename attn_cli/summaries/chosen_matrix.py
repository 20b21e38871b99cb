"""One matrix of many: that of the head that stands out most, with the reason."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from attn_cli.summaries.reduce import Part, Summary
from attn_cli.summaries.reducers.kinds.reducer import HeadKinds
from attn_cli.summaries.reducers.matrix import Matrix
from attn_cli.summaries.report import Report
from attn_cli.summaries.standing_out import standing_out

NO_HEAD = "no head stands out"


def with_one_head(summary: Summary) -> Summary:
    """The summary of a call with the matrix of one head alone: the one that stands out most, as `standing_out` says.

    Where none does, the one with the largest mean weight on the row's strongest key that is no sink. So a call takes no
    more memory than one head's matrix before all calls are known.
    """
    kinds = summary.part(HeadKinds)
    if kinds is None:
        return summary
    out = next(iter(standing_out([summary])), None)
    at, reason = (int(kinds.peaks.weight.argmax()), NO_HEAD) if out is None else (out.at, out.reason)

    def of_head(part: Part) -> Part:
        if not isinstance(part, Matrix):
            return part
        weights, share = (None if x is None else x[[at]] for x in (part.weights, part.rescaled_share))
        head = summary.place.heads[at]
        return replace(part, weights=weights, rescaled_share=share, heads=(head,), reason=reason)

    return replace(summary, parts=tuple(map(of_head, summary.parts)))


def with_one_matrix(summaries: Sequence[Summary]) -> tuple[Summary, ...]:
    """The summaries of all calls, of which one alone keeps its matrices: that of the head that stands out most.

    Where there is one head only, nothing is said of why it is that.
    """
    most = [0.0 if (part := each.part(HeadKinds)) is None else float(part.peaks.weight.max()) for each in summaries]
    out = next(iter(standing_out(summaries)), None)
    best = out.call if out is not None else int(np.argmax(most)) if most else 0
    alone = sum(len(summary.place.heads) for summary in summaries) == 1

    def kept(part: Part, call: int) -> list[Part]:
        if not isinstance(part, Matrix):
            return [part]
        return [replace(part, reason="") if alone else part] if call == best else []

    return tuple(
        replace(summary, parts=tuple(each for part in summary.parts for each in kept(part, call)))
        for call, summary in enumerate(summaries)
    )


def with_one_matrix_alone(report: Report) -> Report:
    """The report with one call's matrices alone, that of the head that stands out most, and the kinds of all heads."""
    return replace(report, summaries=with_one_matrix(report.summaries))
