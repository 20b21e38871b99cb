"""The kinds of a model's heads on a text, in words: a line a kind with its heads, the sinks, what one head reads."""

from collections.abc import Iterator, Sequence
from textwrap import wrap

from rich.cells import cell_len
from rich.text import Text

from attn_cli.summaries.answers.kinds import text_sinks
from attn_cli.summaries.head_words import does, sentence
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.kinds.counted_rows import LEAST_KEYS
from attn_cli.summaries.reducers.kinds.head_kinds import CONTENT, FIRST, KINDS, UNIFORM
from attn_cli.summaries.reducers.kinds.kind_sums import FEW_ROWS, LEAST_OF_FEW, LEAST_ROWS
from attn_cli.summaries.reducers.kinds.reducer import HeadKinds
from attn_cli.summaries.sinks import MOST_OF_A_KEY, SHORT_VALUE, TIMES_UNIFORM
from attn_cli.summaries.standing_out import StandOut, standing_out
from attn_cli.summaries.told.head_families import CountedKind, families, readings
from attn_cli.text import counted
from attn_cli.views.answers.kinds import any_judged, kind_parts, rows_of_sinks
from attn_cli.views.drawing.cells import packed, packed_text
from attn_cli.views.drawing.labels import token_label
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM

_MOST_SINKS = 2
_MOST_RESTING = 2  # heads that rest on the first token and are named
_HUNDREDTH = 0.01
_MOST_FEW = 2  # kinds of too few rows that are told


def draw(summaries: Sequence[Summary], screen: Screen) -> Iterator[Text]:
    """The families of every stream, and where its attention rests."""
    yield Text()
    yield packed_text(["what its heads (layer.head) do here", "attn heads --kinds"], screen, BOLD)
    streams = list(dict.fromkeys(summary.place.stream for summary, _ in kind_parts(summaries)))
    for stream in streams:
        of_stream = [summary for summary in summaries if summary.place.stream == stream]
        if len(streams) > 1:
            yield Text(stream, BOLD)
        if any_judged(of_stream):
            yield from family_lines(of_stream, screen)
        else:
            few = f"too few tokens to name heads by what they do: a kind takes {LEAST_ROWS} rows"
            yield packed_text([few], screen)
        yield from _sinks(of_stream, screen)


def family_lines(summaries: Sequence[Summary], screen: Screen) -> Iterator[Text]:
    """A line for each family of the heads of a stream, and those of which too few rows tell."""
    found = families(summaries)
    yield from (_line(family, screen) for family in found)
    yield from _of_few_rows(summaries, found, screen)


def head_lines(out: StandOut | None, summary: Summary, at: int, reason: str, screen: Screen) -> Iterator[Text]:
    """One head's kind, and the key that it reads most: `head 17.5 (the clearest) · ...`, `18 to gives 14 Mary 0.74`.

    reason  the words in place of its kind where the head doesn't stand out
    """
    place = summary.place
    stream = "" if place.stream == "self" else f"{place.stream} "
    name = f"{stream}head {place.layer}.{place.heads[at]}"
    said = f"{reason}; {name} gives its strongest key most"
    part = summary.part(HeadKinds)
    if part is not None:
        past = ", sinks excluded" if text_sinks(kind_parts([summary])) else ""
        said += f": {part.peaks.weight[at]:.2f} of a row{past} (mean)"
    if out is not None:
        uniform = f"{out.baseline:.{2 if out.baseline >= _HUNDREDTH else 3}f}"
        of_content = " of those that find content" if out.kind is not None and out.kind.rank == CONTENT else ""
        said = f"{name} (the clearest{of_content}) · {sentence(out)}; uniform attention would give {uniform}"
    yield Text("\n".join(packed([said], screen.width)), BOLD)
    found = [f"{token_label(x.query)} gives {token_label(x.key)} {x.weight:.2f}" for x in readings(summary, at)]
    if found:
        given = [f"{found[0]} of its weight (its strongest key that is no sink)", *found[1:]]
        yield packed_text(given, screen)


def _line(family: CountedKind, screen: Screen) -> Text:
    """`   4  look at the token before (previous)  1.2 0.81  11.1 0.77`: as many heads as fit.

    Of those that rest on the first token the least weight, and those that rest on it most.

    Those that find content may take one line more.
    """
    named = [] if family.kind is None else family.heads[:_MOST_RESTING] if family.kind is FIRST else family.heads
    more = int(family.kind is not None and family.kind.rank == CONTENT)
    words = of_several(family.does, len(family.heads))
    if family.kind is FIRST:
        fit = "fits" if len(family.heads) == 1 else "fit"
        words = words.replace(f" ({FIRST.words})", f" and {fit} no other kind ({FIRST.words})")
        words += f", weight {family.heads[-1][1]:.2f} or more" if len(family.heads) > 1 else ""
    return _named(len(family.heads), words, named, screen, more)


def of_several(work: str, count: int) -> str:
    """`look at the token before`: what one head does, of so many."""
    verb, _, rest = work.partition(" ")
    several = f"{verb.removesuffix('s')} {rest}".replace(" its own", " their own").replace(" it may", " they may")
    return work if count == 1 else several


def _named(count: int, words: str, heads: Sequence[tuple[str, float]], screen: Screen, more: int = 0) -> Text:
    """Heads with their numbers after words about them, in the same line, or where that is full in the next.

    more  lines that they may take beyond
    """
    line = Text("\n".join(wrap(f"{count:>4}  {words}", screen.width, subsequent_indent=" " * 6)))
    room = screen.width - cell_len(line.plain.rpartition("\n")[2])
    pieces = [f"  {name} {weight:.2f}" for name, weight in heads]
    if pieces and cell_len(pieces[0]) > room:
        line.append("\n    ")
        room = screen.width - 4
    for piece in pieces:
        if cell_len(piece) > room:
            if not more:
                break
            more -= 1
            line.append("\n    ")
            room = screen.width - 4
        line.append(piece, DIM)
        room -= cell_len(piece)
    return line


def number_captions(summaries: Sequence[Summary]) -> list[str]:
    """The meaning of the numbers behind heads, as far as they are there, and the rows of kinds that find content."""
    kinds = {family.kind for family in families(summaries)} - {None}
    captions = ["number after a head: mean weight on what its kind looks at"] if kinds - {UNIFORM} else []
    captions += ["of uniform: entropy as a share of the largest"] if UNIFORM in kinds else []
    judged = [part.judged for _, part in kind_parts(summaries)]
    content = {kind.words: max(int(each.rows[KINDS.index(kind)]) for each in judged)
               for kind in KINDS if kind in kinds and kind.rank == CONTENT}  # fmt: skip
    captions += [", ".join(f"{words} on {counted(rows, 'row')}" for words, rows in content.items())] if content else []
    if any(rows < LEAST_ROWS for rows in content.values()):
        whole = "non-sink attention" if judged[0].by_share else "its weight"
        captions.append(f"on {FEW_ROWS} to {LEAST_ROWS - 1} rows a head is named from {LEAST_OF_FEW} of {whole} on")
    return captions


def _of_few_rows(summaries: Sequence[Summary], found: Sequence[CountedKind], screen: Screen) -> Iterator[Text]:
    """Heads that would be of a kind that finds content, were there rows enough to judge it."""
    few = [out for out in standing_out(summaries) if not out.is_judged]
    told = [kind for kind in KINDS if kind.rank == CONTENT and any(out.kind is kind for out in few)]
    for kind in told[:_MOST_FEW]:
        heads = [out for out in few if out.kind is kind]
        rows = counted(heads[0].rows, "row")
        yield _named(
            len(heads),
            f"may {of_several(does(kind), 2)} ({kind.words}): {rows}, a kind takes {LEAST_ROWS}",
            [(x.name, x.weight) for x in heads],
            screen,
        )
    if any(token.row is not None for token in summaries[0].queries):  # patches, of which none repeats another
        return
    contents = {family.kind for family in found} | set(told)
    if not any(kind is not None and kind.rank == CONTENT for kind in contents):
        yield Text("no head finds content: none looks at what followed a token before, or at the same token")


def _sinks(summaries: Sequence[Summary], screen: Screen) -> Iterator[Text]:
    """`41% of all attention rests on 0 When, a sink of 162 heads`, a line a sink; then what makes one."""
    heads = sum(len(summary.place.heads) for summary in summaries)
    sinks = text_sinks(kind_parts(summaries))[:_MOST_SINKS]
    for at, sink in enumerate(sinks):
        words = f"{sink.weight:.0%} {'' if at else 'of all attention '}rests on {token_label(sink.token)}, "
        words += f"a {'hub' if sink.is_hub else 'sink'} of {counted(round(heads * sink.heads), 'head')} of any kind"
        if sink.value is not None and sink.value < SHORT_VALUE:
            words += f"; its value is short ({sink.value:.2f} of the median), so little is read there"
        yield Text("\n".join(packed([words], screen.width)))
    rows, captions = rows_of_sinks(summaries[0]), []
    if sinks:
        least = f"{MOST_OF_A_KEY:g} and over {TIMES_UNIFORM} times uniform"
        captions.append(f"sink of a head: its mean weight{rows} is over {least}")
    captions += number_captions(summaries)
    captions += [f"a kind takes {LEAST_ROWS} rows or more, of {LEAST_KEYS} keys or more"] if rows else []
    yield from (Text(line, DIM) for line in wrap(" · ".join(captions), screen.width))
