"""The report of an overview: what words read, one matrix, and what the deciding row reads where no story is told."""

from dataclasses import replace

from attn_cli.call import Call
from attn_cli.summaries.chosen_matrix import with_one_matrix_alone
from attn_cli.summaries.reduce import with_part
from attn_cli.summaries.report import Report
from attn_cli.summaries.text_sinks import text_sinks
from attn_cli.summaries.told.deciding_rows import DecidingRows
from attn_cli.summaries.told.word_reads import MOST_TOLD, WordReads, reads_of


def reads_each_token(call: Call) -> bool:
    """True for self-attention in both directions over a text short enough to say what each word reads."""
    return not call.is_causal and call.n == call.m and call.queries == call.keys and call.m <= MOST_TOLD


def with_word_reads(report: Report) -> Report:
    """The report with what each word of its text reads, from the parts `WordReads`, which are taken out."""
    tokens = report.prompts[0].tokens
    seen = with_part(report.summaries, WordReads)
    if not seen:
        return report
    own = [summary for summary, _ in seen if summary.queries == tokens]
    own = [summary for summary in own if summary.place.stream == own[0].place.stream]
    reads = reads_of(report.prompts[0], own, [sink["key"] for sink in text_sinks(own)])
    return replace(report, reads=reads, summaries=tuple(summary.without(WordReads) for summary in report.summaries))


def overview_of(report: Report, *, on_screen: bool) -> Report:
    """The report of a text's overview: with what each word reads, and the matrix of one head alone."""
    told = with_one_matrix_alone(with_word_reads(report))
    decides = next((part.causal for _, part in told.parts_of(DecidingRows)), False)
    if on_screen and told.story is None and decides:
        return told
    return replace(told, summaries=tuple(summary.without(DecidingRows) for summary in told.summaries))
