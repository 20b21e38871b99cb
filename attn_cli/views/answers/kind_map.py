"""attn heads --kinds: what was read, the families of heads in words, then their map and the sinks of a text."""

from collections.abc import Iterator, Sequence
from functools import partial

from rich.console import RenderableType
from rich.text import Text

from attn_cli.summaries.answers.kinds import KindMap
from attn_cli.summaries.reduce import Summary, with_part
from attn_cli.summaries.reducers.kinds.head_kinds import CONTENT, KINDS, Kind
from attn_cli.summaries.reducers.kinds.kind_sums import LEAST_ROWS, JudgedKinds
from attn_cli.summaries.reducers.kinds.reducer import HeadKinds
from attn_cli.summaries.report import Report
from attn_cli.summaries.standing_out import standing_out
from attn_cli.summaries.told.copying import Copying
from attn_cli.summaries.told.head_families import CountedKind, families
from attn_cli.text import counted
from attn_cli.views.answers.copying import captions as copying_captions
from attn_cli.views.answers.copying import in_words as copies_in_words
from attn_cli.views.answers.head_families import family_lines, least_of_few, number_captions, of_several, shares_of
from attn_cli.views.answers.kinds import draw_kinds, mean_baseline, sink_lines
from attn_cli.views.drawing.cells import packed, packed_text
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import MODEL, matrix_of_head, on_same_input


def draw(kinds: KindMap, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """What was read, if it is random tokens; the heads by kind, in words and as a map below its legend; the sinks."""
    read = list(_read(kinds))
    if read:
        yield packed_text(read, screen, DIM)
    yield ""
    yield from draw_kinds(kinds.parts, screen, partial(_families, copying=kinds.copying))
    yield from sink_lines(kinds.sinks, [summary for summary, _ in kinds.parts], screen)


def _families(summaries: Sequence[Summary], screen: Screen, copying: Copying | None) -> Iterator[Text]:
    """The head that finds content most surely and whether it copies, then every family with its heads."""
    found = families(summaries)
    if said := _sentence(summaries, found.counted, copying):
        yield Text("\n".join(packed([said], screen.width)), BOLD)
    yield from family_lines(summaries, found, screen, copying)
    of_text = any(part.judged.by_share for _, part in with_part(summaries, HeadKinds))
    told = copying_captions(copying, of_text=of_text) if said else []
    if captions := [*number_captions(summaries, found), *told]:
        yield packed_text(captions, screen, DIM)
    yield Text()
    yield Text("map: a row a layer, a column a head", BOLD)


def _sentence(summaries: Sequence[Summary], counted_kinds: Sequence[CountedKind], copying: Copying | None) -> str:
    """How many heads look at what followed a token before, or at the same token, and how many copy."""
    found = [family for family in counted_kinds if family.kind is not None and family.kind.rank == CONTENT]
    heads = sum(len(summary.place.heads) for summary in summaries)
    if not found:
        return ""  # the families say it
    (name, weight), kind = found[0].heads[0], found[0].kind
    assert kind is not None
    uniform = mean_baseline(with_part(summaries, HeadKinds), kind)
    told = []
    for at, family in enumerate(found):
        count = len(family.heads)
        told.append(f"{count}{'' if at else f' of {heads} heads'} {of_several(family.does, count)}")
        names = [head for head, _ in family.heads]
        known = [] if copying is None else copying.of(names, summaries[0].place.stream)
        told += [copies_in_words(known)] if known else []
    said = "; ".join(told)
    layer, _, head = name.partition(".")
    times = f", {weight / uniform:.0f} times as much as uniform attention, {uniform:.3f}" if uniform > 0 else ""
    judged = [part.judged for _, part in with_part(summaries, HeadKinds)]
    share = shares_of(summaries, kind).get(name)
    of_rest = "" if share is None else f", {share:.2f} of non-sink attention"
    surety = _surety(kind, judged, uniform)
    return f"{said}; most of all {name} (layer {layer}, head {head}): weight {weight:.2f}{of_rest}{times}{surety}"


def _surety(kind: Kind, judged: Sequence[JudgedKinds], uniform: float) -> str:
    """`, mean of 14 rows: few, so a head is named from 0.69 of non-sink attention on, 5 times what uniform ...`."""
    rows = max(int(each.rows[KINDS.index(kind)]) for each in judged)
    whole = "non-sink attention" if judged[0].by_share else "its weight"
    least = least_of_few(kind, uniform)
    times = f", {least / uniform:.0f} times what uniform attention gives" if uniform > 0 else ""
    few = f": few, so a head is named from {least:.2f} of {whole} on{times}" if rows < LEAST_ROWS else ""
    return f", mean of {counted(rows, 'row')} with such a token{few}"


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: the matrix of the head most clearly of a kind, or without such a head `attn heads`."""
    assert isinstance(report.answer, KindMap)
    if report.answer.seed is not None:
        return ["heads", "--kinds", *invocation.words(MODEL), "--seed", str(report.answer.seed + 1)]
    summaries = report.answer.summaries
    out = next(iter(standing_out(summaries)), None)
    if out is None:
        return on_same_input("heads", report, invocation)
    return matrix_of_head(summaries[out.call], out.at, report, invocation)


def _read(kinds: KindMap) -> Iterator[str]:
    """The input where that is no text, and the number of heads that share a key head."""
    if kinds.seed is not None:
        texts = counted(len(kinds.lengths), "random text")
        yield f"{texts}, repeated: {', '.join(map(str, kinds.lengths))} tokens"
        yield f"seed {kinds.seed}"
    shared = {
        len(summary.place.heads) // len(set(summary.place.groups))
        for summary in kinds.summaries
        if summary.place.groups
    }
    if len(shared) == 1 and max(shared) > 1:
        yield f"{shared.pop()} heads per key head"
