"""The kinds of a model's heads on a text: a table, or a line; the sinks; the heads that stand out."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.text import Text

from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.standing_out import StandOut, any_judged, by_stream, counts, families
from attn_cli.summaries.text_sinks import sink_words, text_sinks
from attn_cli.views.answers.story import named
from attn_cli.views.drawing.labels import head_name
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.table import table_lines


def family_lines(summaries: Sequence[Summary], screen: Screen) -> Iterator[Text]:
    """A line for each kind of head: how many heads, the weight of the first, and the first ones by name."""
    rows = families(summaries)
    yield from table_lines(rows, [row["family"] for row in rows], ("heads", "weight", "strongest"), screen, "", "kind")


def standing_out_lines(outs: Sequence[StandOut], summaries: Sequence[Summary], screen: Screen) -> Iterator[Text]:
    """A line for each of these heads: what it does, its weight there, and the row that does so most."""
    rows: list[dict[str, Any]] = []
    for out in outs:
        rows.append({"does": out.kind.does, "weight": out.weight})
        if out.strongest is not None:
            key = summaries[out.call].keys[out.strongest[1]]
            rows[-1] |= {"key": key.index, "key_token": key.text}
    labels = [head_name(summaries[out.call], out.at) for out in outs]
    yield from table_lines(rows, labels, ("does", "weight", "key_token"), screen, title="head")


def count_lines(summaries: Sequence[Summary], screen: Screen) -> Iterator[Text]:
    """`heads    previous 4   self 3   first token 79`, and `sink     "When" 0 gets 41% of all attention`, by stream."""
    streams = by_stream(summaries)
    for stream, own in streams.items():
        lead = f"{stream}: " if len(streams) > 1 else ""
        if any_judged(own):
            pieces = [words for words, *_ in counts(own)]
            yield from named("heads", [lead + pieces[0], *pieces[1:]], screen)
        for said in sink_words(text_sinks(own)):
            yield from named("sink", [lead + said], screen)
