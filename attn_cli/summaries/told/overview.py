"""The report of an overview: what words read, the matrix of one head, and what the deciding row reads."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from attn_cli.call import Call
from attn_cli.recording import Recording
from attn_cli.summaries.calls.in_words import words_of
from attn_cli.summaries.reduce import Reducer, Summary, with_part
from attn_cli.summaries.reducers.keys import DecidingRows, whole_row
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
    seen = with_part(report.summaries, WordReads)
    if not seen:
        return report
    own = [(summary, part) for summary, part in seen if summary.queries == report.prompts[0].tokens]
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
    decides = next((x.causal or whole_row(of.queries) == 0 for of, x in told.parts_of(DecidingRows)), False)
    if on_screen and told.story is None and decides:
        return told
    return replace(told, summaries=tuple(summary.without(DecidingRows) for summary in told.summaries))


def with_one_matrix_alone(report: Report) -> Report:
    """The report with the matrix of the head of what is told first, else that stands out most."""
    told, places = told_head(report), [summary.place for summary in report.summaries]
    if told is not None:
        head = head_place(told)
        layers = [(place.layer, place.stream) == (head.layer, head.stream) for place in places]
        calls = [at for at, place in enumerate(places) if layers[at] and head.head in place.heads]
        if with_part([report.summaries[at] for at in calls], Matrix):
            return _with_matrix(report, calls, head.head, None)
    out = _standing_out_most(report.summaries)
    alone = sum(len(place.heads) for place in places) == 1
    return report if out is None else _with_matrix(report, [out.call], out.head, None if alone else out)


def _standing_out_most(summaries: Sequence[Summary]) -> StandOut | None:
    """The head that stands out most, for want of one that with the heaviest key; None where no matrix is judged."""
    judged = [(at, x, x.part(HeadKinds)) for at, x in enumerate(summaries) if x.part(Matrix) is not None]
    peaks = [(at, x.place, kinds.peaks.weight) for at, x, kinds in judged if kinds is not None]
    if outs := [out for out in standing_out(summaries) if out.call in [at for at, *_ in peaks]]:
        return outs[0]
    for call, place, weight in sorted(peaks, key=lambda peak: -float(peak[2].max()))[:1]:
        at = int(weight.argmax())
        return StandOut(call, at, place.layer, place.heads[at], FOCUSED, False, float(weight[at]), 0, None)
    return None


def _with_matrix(report: Report, calls: Sequence[int], head: int, chosen: StandOut | None) -> Report:
    kept = [summary.without(Matrix) for summary in report.summaries]
    for at in calls:
        summary, matrix = report.summaries[at], report.summaries[at].part(Matrix)
        if matrix is not None:
            weights = None if matrix.weights is None else matrix.weights[[summary.place.heads.index(head)]]
            own = replace(matrix, weights=weights, heads=(head,), chosen=chosen)
            kept[at] = replace(summary, parts=(*kept[at].parts, own))
    return replace(report, summaries=tuple(kept))
