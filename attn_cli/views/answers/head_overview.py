"""One screen over all heads: what they do, those that stand out, and where the numbers of the others lie."""

from collections.abc import Iterator, Sequence
from textwrap import wrap

import numpy as np
from rich.cells import cell_len
from rich.text import Text

from attn_cli.summaries.head_words import readings, sentence
from attn_cli.summaries.reducers.heads.statistics import STATISTICS
from attn_cli.summaries.report import Report
from attn_cli.summaries.standing_out import standing_out
from attn_cli.views.answers import head_families
from attn_cli.views.answers.heads import HeadRow, head_rows
from attn_cli.views.drawing.bars import HEIGHTS
from attn_cli.views.drawing.cells import packed, packed_text
from attn_cli.views.drawing.labels import head_name, token_label
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM

_MOST = 8  # heads that are told one by one
_BINS = 16


def draw(report: Report, screen: Screen) -> Iterator[Text]:
    """Lines: heads by what they attend to, those that stand out, a histogram of each statistic, how to list all."""
    yield from head_families.draw(report.summaries, screen)
    yield Text()
    yield from _outstanding(report, screen)
    yield Text()
    yield from _histograms(head_rows(report.summaries), report.unit, screen)
    yield packed_text(["--all lists every head", "--sort induction -k 8 the 8 largest by a number"], screen, DIM)


def _outstanding(report: Report, screen: Screen) -> Iterator[Text]:
    """A line for each head that stands out, with what it reads most; that there is none is said."""
    found = standing_out(report.summaries)
    heads = len(head_rows(report.summaries))
    if not found:
        yield Text("\n".join(packed([f"none of {heads} heads stands out: no kind names one, and none gives one token "
                                     "much that is no sink"], screen.width)), BOLD)  # fmt: skip
        return
    count = min(_MOST, len(found))
    said = (
        f"{len(found)} of {heads} heads stand out: they find content or look at a place near by, or give one token a "
        "row half of what sinks leave"
    )
    said += f"; the first {count}" if count < len(found) else ""
    yield Text("\n".join(packed([said], screen.width)), BOLD)
    for out in found[:count]:
        summary = report.summaries[out.call]
        line = Text(f"  {head_name(summary, out.at):<6}{sentence(out)}")
        reads = [
            f"{token_label(query)} gives {token_label(key)} {weight:.2f}"
            for query, key, weight in readings(summary, out.at, 1)
        ]
        if reads and cell_len(line.plain) + cell_len(reads[0]) + 3 <= screen.width:
            line.append(f" · {reads[0]}", DIM)
        wide = cell_len(line.plain) > screen.width
        yield Text("\n".join(wrap(line.plain, screen.width, subsequent_indent=" " * 8))) if wide else line


def _histograms(rows: Sequence[HeadRow], unit: str, screen: Screen) -> Iterator[Text]:
    """`entropy (bits)  0.01 ▂█▅ 2.9 least 18.8`: where the heads lie between the least and the largest number."""
    blocks = f" {HEIGHTS}"
    width = max(len(statistic.heading) for statistic in STATISTICS)
    yield packed_text(["how many heads have which value, least to largest", "means over all rows"], screen, BOLD)
    captions = []
    for statistic in STATISTICS:
        values = np.array([row.heads.statistics[statistic.name][row.at] for row in rows], dtype=np.float64)
        known = np.isfinite(values)
        if not known.any() or statistic.says_nothing(values):
            continue
        captions.append(statistic.caption)
        low, high = float(values[known].min()), float(values[known].max())
        counts, _ = np.histogram(values[known], bins=_BINS, range=(low, high if high > low else low + 1))
        marks = "".join(blocks[int(np.ceil(8 * count / counts.max()))] for count in counts)
        best = int(np.nanargmax(values) if statistic.largest_first else np.nanargmin(values))
        line = f"  {statistic.heading:<{width}} {low:7.2f} {marks} {high:<7.2f}"
        name = f"{'most' if statistic.largest_first else 'least'} {head_name(rows[best].summary, rows[best].at)}"
        yield Text(line.rstrip() if cell_len(line) + len(name) + 1 > screen.width else f"{line} {name}")
    yield from (Text(line, DIM) for line in wrap(", ".join(captions).format(unit=unit), screen.width))
