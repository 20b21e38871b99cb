"""How a head of a scan shares its weight out over distances: a bar for each range that has some."""

from collections.abc import Iterator, Sequence

from rich.text import Text

from attn_cli.summaries.scanned.head import WeightRange
from attn_cli.views.drawing.bars import bar
from attn_cli.views.drawing.cells import packed, packed_text
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD

_FEWEST_RANGES = 0.005  # of all weight: smaller ranges at the ends are left out


def with_weight(ranges: Sequence[WeightRange]) -> list[WeightRange]:
    """The ranges from the first with weight to the last."""
    some = [at for at, each in enumerate(ranges) if each.weight >= _FEWEST_RANGES]
    return list(ranges[some[0] : some[-1] + 1]) if some else []


def joined(ranges: list[WeightRange], most: int) -> list[WeightRange]:
    """No more than `most`, at least those before, at and after the query: of neighbours, the lightest become one."""
    while len(ranges) > most:
        pairs = [at for at in range(len(ranges) - 1) if _side(ranges[at]) == _side(ranges[at + 1])]
        if not pairs:
            break
        at = min(pairs, key=lambda at: ranges[at].weight + ranges[at + 1].weight)
        one, other = ranges[at : at + 2]
        ranges[at : at + 2] = [
            WeightRange(one.first, other.last, one.weight + other.weight, one.baseline + other.baseline)
        ]
    return ranges


def _side(each: WeightRange) -> int:
    """-1 for keys after the query, 0 for its own, 1 for those before."""
    return -1 if each.first is None or each.first < 0 else int(each.first > 0)


def words_of_ranges(ranges: Sequence[WeightRange], screen: Screen) -> Iterator[Text]:
    """The ranges in words: `distance back: 0 0.120 · 1 0.341`."""
    words = [f"{each.label} {each.weight:.3f}" for each in ranges]
    yield packed_text([f"distance back: {words[0]}", *words[1:]], screen)


def bars_of_ranges(ranges: Sequence[WeightRange], screen: Screen, *, spaced: bool) -> Iterator[Text | str]:
    """A bar for each range, with what uniform attention would give; `spaced` below an empty line."""
    yield from [""] * spaced
    words = packed(
        ["distance back from the query:", "share of the weight, and of uniform attention"], screen.width, " "
    )
    if not spaced and len(words) > 1:
        words = packed(["distance back:", "weight, uniform"], screen.width, " ")
    yield Text("\n".join(words), BOLD)
    longest = max(each.weight for each in ranges)
    label = max(len(each.label) for each in ranges)
    for each in ranges:
        line = f"  {each.label:>{label}}  {each.weight:5.3f}  {each.baseline:5.3f}  "
        yield Text(line + bar(each.weight, max(4, min(40, screen.width - len(line))), longest))
