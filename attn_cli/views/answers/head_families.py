"""The kinds of a model's heads on a text, in words: a line a kind with its heads, the sinks, what one head reads."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap

import numpy as np
from rich.cells import cell_len
from rich.text import Text

from attn_cli.summaries.head_words import does
from attn_cli.summaries.reduce import Summary, with_part
from attn_cli.summaries.reducers.kinds.head_kinds import (
    BACK,
    CONTENT,
    DELIMITER,
    DUPLICATE,
    FIRST,
    INDUCTION,
    KINDS,
    MARKS,
    PLACE,
    UNIFORM,
    WINDOW,
    Kind,
)
from attn_cli.summaries.reducers.kinds.kind_sums import (
    FEW_ROWS,
    LEAST_OF_FEW,
    LEAST_ROWS,
    LEAST_WEIGHT,
    LEAST_WINDOW,
    TIMES_BASELINE,
    WINDOW_TIMES_BASELINE,
    least_for_name,
)
from attn_cli.summaries.reducers.kinds.reducer import HeadKinds
from attn_cli.summaries.reducers.kinds.row_factors import LEAST_KEYS
from attn_cli.summaries.sinks import MOST_OF_A_KEY, SHORT_VALUE, TIMES_UNIFORM
from attn_cli.summaries.text_sinks import text_sinks
from attn_cli.summaries.told.copying import Copying
from attn_cli.summaries.told.head_families import CountedKind, HeadFamilies, any_judged, families
from attn_cli.text import counted, listed
from attn_cli.views.answers.copying import lines as copying_lines
from attn_cli.views.answers.kinds import mean_baseline, rows_of_sinks, sink_lines
from attn_cli.views.answers.story import named, token_name
from attn_cli.views.drawing.cells import packed, packed_text
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM

_MOST_RESTING = 2  # heads that rest on the first token and are named
_CUT = 4  # columns of the mark of a list that goes on


def draw(summaries: Sequence[Summary], screen: Screen) -> Iterator[Text]:
    """For each stack a line for each kind of head (induction, previous token ...), and sinks."""
    yield Text()
    yield packed_text(["what its heads (layer.head) do here", "attn heads --kinds"], screen, BOLD)
    streams = list(dict.fromkeys(summary.place.stream for summary, _ in with_part(summaries, HeadKinds)))
    for stream in streams:
        of_stream = [summary for summary in summaries if summary.place.stream == stream]
        if len(streams) > 1:
            yield Text(stream, BOLD)
        found = families(of_stream) if any_judged(of_stream) else None
        if found is not None:
            yield from family_lines(of_stream, found, screen)
        else:
            few = f"too few tokens to name heads by what they do: a kind takes {LEAST_ROWS} rows"
            yield packed_text([few], screen)
        yield from _sinks(of_stream, found, screen)


def counts(summaries: Sequence[Summary], screen: Screen) -> Iterator[Text]:
    """`heads    previous 4   self 3   first token 79`, and `sink     "When" 0 gets 41% of all attention`, by stream."""
    streams = list(dict.fromkeys(summary.place.stream for summary, _ in with_part(summaries, HeadKinds)))
    for stream in streams:
        of_stream = [summary for summary in summaries if summary.place.stream == stream]
        lead = f"{stream}: " if len(streams) > 1 else ""
        if any_judged(of_stream):
            found = families(of_stream)
            pieces = [f"{_kind_name(family.kind)} {len(family.heads)}" for family in found.counted]
            few = Counter(out.kind for out in found.few if out.kind is not None)
            pieces += [f"perhaps {kind.words} {count}" for kind, count in few.items()]
            yield from named("heads", [lead + pieces[0], *pieces[1:]], screen)
        for sink in text_sinks(with_part(of_stream, HeadKinds))[:1]:
            adds = " and adds little" if sink.value is not None and sink.value <= SHORT_VALUE else ""
            got = f"{lead}{token_name(sink.token)} gets {sink.weight:.0%} of all attention{adds}"
            yield from named("sink", [got], screen)


def _kind_name(kind: Kind | None) -> str:
    if kind is None:
        return "no kind"
    return "2 to 8 back" if kind in BACK else "first token" if kind is FIRST else kind.words


def family_lines(
    summaries: Sequence[Summary], found: HeadFamilies, screen: Screen, copying: Copying | None = None
) -> Iterator[Text]:
    """A line for each kind of head (induction, previous token ...) with its heads, then those judged on few rows."""
    for family in found.counted:
        shares = {} if family.kind is None else shares_of(summaries, family.kind)
        names = [name for name, _ in family.heads]
        told = [] if copying is None else copying.of(names, summaries[0].place.stream)
        if any(head.copies or head.suppresses for head in told):
            yield from _named(len(names), of_several(family.does, len(names)), [], screen)
            yield from copying_lines(told, dict(_numbered(family.heads, shares)), len(names) - len(told), screen)
        else:
            yield from _line(family, screen, shares)
    yield from _of_few_rows(summaries, found, screen)


def shares_of(summaries: Sequence[Summary], kind: Kind) -> dict[str, float]:
    """By head, such as "18.6", its share of attention beyond sinks on the keys that define a kind."""
    if kind in (FIRST, DELIMITER, UNIFORM):  # of which it is the weight itself
        return {}
    return {
        f"{summary.place.layer}.{head}": float(part.judged.measured[KINDS.index(kind)][at])
        for summary, part in with_part(summaries, HeadKinds)
        if part.judged.by_share
        for at, head in enumerate(summary.place.heads)
    }


def least_of_few(kind: Kind, uniform: float) -> float:
    """The least number that names a head as induction or duplicate where only 8 to 15 rows have a key of that kind."""
    least = float(least_for_name(kind, uniform, np.nan)) if np.isfinite(uniform) else 0.0
    return max(LEAST_OF_FEW, least)


def _line(family: CountedKind, screen: Screen, shares: Mapping[str, float]) -> Iterator[Text]:
    """` 4 look at the token before (previous) 1.2 0.81 11.1 0.77`: as many heads as fit."""
    named = [] if family.kind is None else family.heads[:_MOST_RESTING] if family.kind is FIRST else family.heads
    more = 0 if family.kind is None or family.kind.rank != CONTENT else 2
    words = of_several(family.does, len(family.heads))
    if family.kind is FIRST:
        fit = "fits" if len(family.heads) == 1 else "fit"
        words = words.replace(f" ({FIRST.words})", f" and {fit} no other kind ({FIRST.words})")
        words += f", weight {family.heads[-1][1]:.2f} or more" if len(family.heads) > 1 else ""
    return _named(len(family.heads), words, _numbered(named, shares), screen, more)


def _numbered(heads: Sequence[tuple[str, float]], shares: Mapping[str, float]) -> list[tuple[str, str]]:
    return [(name, f"{weight:.2f}" + (f"/{shares[name]:.2f}" if name in shares else "")) for name, weight in heads]


def of_several(work: str, count: int) -> str:
    """What a head does, as words: `looks at the token before`, or of several heads `look at the token before`."""
    verb, _, rest = work.partition(" ")
    several = f"{verb.removesuffix('s')} {rest}".replace(" its own", " their own").replace(" it may", " they may")
    return work if count == 1 else several


def _named(
    count: int,
    words: str,
    heads: Sequence[tuple[str, str]],
    screen: Screen,
    more: int = 0,
) -> Iterator[Text]:
    """Heads with their numbers after words about them, in the same line, or where that is full in the next."""
    line = Text("\n".join(wrap(f"{count:>4}  {words}", screen.width, subsequent_indent=" " * 6)))
    room = screen.width - cell_len(line.plain.rpartition("\n")[2])
    pieces = [f"  {name} {number}" for name, number in heads]
    if pieces and cell_len(pieces[0]) > room:
        line.append("\n    ")
        room = screen.width - 4
    for piece in pieces:
        if cell_len(piece) > room:
            if not more:
                line.append((" ..." if screen.ascii_only else " …") if room >= _CUT else "", DIM)
                break
            more -= 1
            line.append("\n    ")
            room = screen.width - 4
        line.append(piece, DIM)
        room -= cell_len(piece)
    yield line


def number_captions(summaries: Sequence[Summary], found: HeadFamilies) -> list[str]:
    """Captions: what the numbers behind heads mean, the least number that names a kind, and how many rows it takes."""
    parts = with_part(summaries, HeadKinds)
    kinds = [family.kind for family in found.counted if family.kind is not None]
    kinds += [out.kind for out in found.few if out.kind is not None and out.kind not in kinds]
    by_share = bool(parts) and parts[0][1].judged.by_share
    rows = f"mean of the rows that see {LEAST_KEYS} keys or more and have such a key"
    captions = []
    if any(kind is not UNIFORM for kind in kinds):
        captions.append(f"number behind a head: its weight on what its kind looks at, {rows}")
        if by_share and not set(kinds) <= {FIRST, DELIMITER, UNIFORM}:
            captions.append("behind /: that weight as a share of what the head doesn't give to sinks")
    captions += ["of uniform: entropy as a share of the largest"] if UNIFORM in kinds else []
    captions += _least(kinds, parts, by_share=by_share)
    number = "share" if by_share else "weight"
    asked = max(
        (least_of_few(kind, mean_baseline(parts, kind)) for kind in kinds if kind.rank == CONTENT), default=LEAST_OF_FEW
    )
    of_few = f"{INDUCTION.words} and {DUPLICATE.words} {FEW_ROWS} with a {number} of {asked:.2g}"
    seen = "" if any(kind is not UNIFORM for kind in kinds) else f" that see {LEAST_KEYS} keys or more"
    return [*captions, f"a kind takes {LEAST_ROWS} {'rows' if seen else 'such rows'} or more{seen}, {of_few}"]


def _least(kinds: Sequence[Kind], parts: Sequence[tuple[Summary, HeadKinds]], *, by_share: bool) -> list[str]:
    """`a head is named by its share: induction from 0.69, previous, self from 0.52; by its weight: first from 0.52`."""
    named: dict[str, dict[str, list[str]]] = {}
    for kind in (kind for kind in KINDS if kind in kinds):
        baseline = mean_baseline(parts, kind) if kind is not UNIFORM else np.nan
        number = "entropy" if kind is UNIFORM else "share" if by_share and kind not in (FIRST, DELIMITER) else "weight"
        least = f"{float(least_for_name(kind, baseline, np.nan)):.2f}"
        words = "2 to 8 back" if kind in BACK else kind.words
        own = named.setdefault(number, {}).setdefault(least, [])
        own += [words] if words not in own else []
    told = [
        f"by {'its ' * (number != 'entropy')}{number}: "
        + ", ".join(f"{listed(words)} from {least}" for least, words in of_number.items())
        for number, of_number in named.items()
    ]
    if not told:
        return []
    if set(kinds) == {UNIFORM}:
        return [f"a head is named {'; '.join(told)}"]
    times = [f"{TIMES_BASELINE} times uniform attention, or {LEAST_WEIGHT:g}"]
    times += [f"of {WINDOW.words} {WINDOW_TIMES_BASELINE} times, or {LEAST_WINDOW:g}"] if WINDOW in kinds else []
    placed = [kind for kind in kinds if kind.rank in (PLACE, MARKS)] if by_share else []
    names = dict.fromkeys("2 to 8 back" if kind in BACK else kind.words for kind in placed)
    most = f"; of {listed(names)} in most single rows, too" if placed else ""
    return [f"a head is named {'; '.join(told)} ({', '.join(times)}{most})"]


def _of_few_rows(summaries: Sequence[Summary], found: HeadFamilies, screen: Screen) -> Iterator[Text]:
    """Heads that would be of a kind, were there rows enough to judge it, in the order of kinds."""
    told = [kind for kind in KINDS if any(out.kind is kind for out in found.few)]
    for kind in told:
        heads = [out for out in found.few if out.kind is kind]
        yield from _named(
            len(heads),
            f"may {of_several(does(kind), 2)} ({kind.words}), on {counted(heads[0].rows, 'row')}",
            _numbered([(x.name, x.weight) for x in heads], shares_of(summaries, kind)),
            screen,
            more=1,
        )
    if told:
        tokens = counted(len(summaries[0].queries), "token")
        said = f"may: {tokens} have too few such rows to be sure, a kind takes {LEAST_ROWS}"
        yield Text("\n".join(packed([said], screen.width)))
    if any(token.row is not None for token in summaries[0].queries):  # patches, of which none repeats another
        return
    contents = {family.kind for family in found.counted} | set(told)
    if not any(kind is not None and kind.rank == CONTENT for kind in contents):
        yield Text("no head finds content: none looks at what followed a token before, or at the same token")


def _sinks(summaries: Sequence[Summary], found: HeadFamilies | None, screen: Screen) -> Iterator[Text]:
    """`41% of all attention rests on 0 When, a sink of 162 heads`, a line a sink; then what makes one."""
    sinks = text_sinks(with_part(summaries, HeadKinds))
    yield from sink_lines(sinks, summaries, screen)
    rows, captions = rows_of_sinks(summaries[0]), []
    if sinks:
        least = f"{MOST_OF_A_KEY:g} of its weight, and over {TIMES_UNIFORM} times uniform attention"
        captions.append(f"sink of a head: a key that gets over {least} (mean{rows})")
    captions += [] if found is None else number_captions(summaries, found)
    yield from (Text(line, DIM) for line in wrap(" · ".join(captions), screen.width))
