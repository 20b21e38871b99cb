"""The report of an overview: what words read, one matrix, and what the deciding row reads where no story is told."""

from dataclasses import replace

from attn_cli.summaries.chosen_matrix import with_one_matrix_alone
from attn_cli.summaries.report import Report
from attn_cli.summaries.told.deciding_rows import DecidingRows
from attn_cli.summaries.with_reads import with_word_reads


def overview_of(report: Report, *, on_screen: bool) -> Report:
    """The report of a text's overview: with what each word reads, and the matrix of the head that stands out most
    alone.
    """
    told = with_one_matrix_alone(with_word_reads(report))
    decides = next((part.causal for _, part in told.parts_of(DecidingRows)), False)
    if on_screen and told.story is None and decides:
        return told
    return replace(told, summaries=tuple(summary.without(DecidingRows) for summary in told.summaries))
