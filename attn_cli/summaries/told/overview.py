"""The report of an overview: what words read, the matrix of one head, and what the deciding row reads."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from attn_cli.call import Call
from attn_cli.model.intervention import HeadPlace
from attn_cli.recording import Recording
from attn_cli.summaries.calls.in_words import words_of
from attn_cli.summaries.reduce import Reducer, Summary, with_part
from attn_cli.summaries.reducers.keys import DecidingRows
from attn_cli.summaries.reducers.kinds.reducer import HeadKinds
from attn_cli.summaries.reducers.matrix import Matrix
from attn_cli.summaries.report import Report
from attn_cli.summaries.standing_out import FOCUSED, StandOut, standing_out
from attn_cli.summaries.text_sinks import text_sinks
from attn_cli.summaries.told.story import Cell, Row, head_place, main_head, recorded_cell
from attn_cli.summaries.told.word_reads import MOST_TOLD, Reads, WordReads, WordReadsReducer, clearest, reads_of


def word_readers(call: Call) -> list[Reducer]:
    """What finds the words that each word reads, for self-attention in both directions over a text that is short."""
    is_told = not call.is_causal and call.n == call.m <= MOST_TOLD and call.queries == call.keys
    return [WordReadsReducer()] if is_told and all(token.row is None for token in call.keys) else []


def with_word_reads(report: Report) -> Report:
    """The report with what each word of its text reads, from the parts `WordReads`, which are taken out."""
    tokens = report.prompts[0].tokens
    seen = with_part(report.summaries, WordReads)
    if not seen:
        return report
    own = [(summary, part) for summary, part in seen if summary.queries == tokens]
    own = [(summary, part) for summary, part in own if summary.place.stream == own[0][0].place.stream]
    sinks = [sink["key"] for sink in text_sinks(summary for summary, _ in own)]
    reads = reads_of(report.prompts[0], own, sinks) if own else None  # none of the text itself
    return replace(report, reads=reads, summaries=tuple(summary.without(WordReads) for summary in report.summaries))


def recorded_reads(recording: Recording, summaries: tuple[Summary, ...]) -> Reads:
    """What each word of a recorded text reads, from parts `WordReads`; nothing of a text read one way."""
    return with_word_reads(Report("inspect", recording.about, (recording.prompt,), summaries)).reads or []


def link_cell(recording: Recording, word: Row, source: Row) -> Cell | None:
    """Where the head that gives most of a word to a source does: indices of layer, head, query and key."""
    starts = words_of(recording.prompt.tokens).starts
    ends = [int(starts[np.searchsorted(starts, at, side="right")]) for at in (word["query"], source["key"])]
    return recorded_cell(recording, source, range(word["query"], ends[0]), ends[1] - source["key"])


def told_head(report: Report) -> Row | None:
    """The head of what is told first, and its cell: that brings what the answer needs most, or the strongest link."""
    if report.story is not None:
        return main_head(report.story)
    word = clearest(report.reads or [])
    return word and word | word["sources"][0]


def overview_of(report: Report, *, on_screen: bool) -> Report:
    """The report of a text's overview: with what each word reads, and the matrix of one head alone."""
    told = with_one_matrix_alone(with_word_reads(report))
    decides = next((part.causal for _, part in told.parts_of(DecidingRows)), False)
    if on_screen and told.story is None and decides:
        return told
    return replace(told, summaries=tuple(summary.without(DecidingRows) for summary in told.summaries))


def with_one_head(summary: Summary) -> Summary:
    """The summary of a call with the weights of one head alone, so that each call's take the memory of one head's."""
    kinds, matrix = summary.part(HeadKinds), summary.part(Matrix)
    if kinds is None or matrix is None or matrix.chosen is not None:
        return summary
    out = next(iter(standing_out([summary])), None)
    if out is None:
        place, at = summary.place, int(kinds.peaks.weight.argmax())
        out = StandOut(0, at, place.layer, place.heads[at], FOCUSED, False, float(kinds.peaks.weight[at]), 0, None)
    return _with(summary, _of_head(matrix, summary, out.at, out))


def _of_head(matrix: Matrix, summary: Summary, at: int, chosen: StandOut | None = None) -> Matrix:
    weights = None if matrix.weights is None else matrix.weights[[at]]
    return replace(matrix, weights=weights, heads=(summary.place.heads[at],), chosen=chosen)


def _with(summary: Summary, matrix: Matrix) -> Summary:
    return replace(summary, parts=(*summary.without(Matrix).parts, matrix))


def with_one_matrix(summaries: Sequence[Summary], place: HeadPlace | None = None) -> tuple[Summary, ...]:
    """The summaries of all calls; only the matrix of the head at `place`, or that stands out most, is kept."""
    chosen = [matrix.chosen for _, matrix in with_part(summaries, Matrix) if matrix.chosen]
    best = min(chosen, key=lambda head: head.order, default=None)
    alone = sum(len(summary.place.heads) for summary in summaries) == 1
    kept = []
    for summary in summaries:
        own, matrix = summary.place, summary.part(Matrix)
        if matrix is None or (place is None and matrix.chosen is not best):
            kept.append(summary.without(Matrix))
        elif place is None:
            kept.append(_with(summary, replace(matrix, chosen=None if alone else best)))
        elif (own.layer, own.stream) == (place.layer, place.stream) and place.head in own.heads:
            kept.append(_with(summary, _of_head(matrix, summary, own.heads.index(place.head))))
        else:
            kept.append(summary.without(Matrix))
    return tuple(kept)


def with_one_matrix_alone(report: Report) -> Report:
    """The report with the matrix of the head of what is told first, else that stands out most."""
    head = told_head(report)
    summaries = () if head is None else with_one_matrix(report.summaries, head_place(head))
    if not with_part(summaries, Matrix):
        summaries = with_one_matrix(tuple(map(with_one_head, report.summaries)))
    return replace(report, summaries=summaries)
