"""How a head of a scan shares its weight out over distances: a bar for each range that has some."""

from collections.abc import Iterator, Sequence

from rich.text import Text

from attn_cli.summaries.answers.scan_head import WeightRange
from attn_cli.views.answers.scan_head_layout import HeadLayout
from attn_cli.views.drawing.bars import bar
from attn_cli.views.drawing.cells import packed, packed_text
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD

_FEWEST_RANGES = 0.005  # of all weight: smaller ranges at the ends are left out


def with_weight(ranges: Sequence[WeightRange]) -> list[WeightRange]:
    """The ranges from the first with weight to the last."""
    some = [at for at, each in enumerate(ranges) if each.weight >= _FEWEST_RANGES]
    return list(ranges[some[0] : some[-1] + 1]) if some else []


def _joined(ranges: list[WeightRange], most: int) -> list[WeightRange]:
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


def draw_ranges(title: str, ranges: Sequence[WeightRange], screen: Screen, layout: HeadLayout) -> Iterator[Text | str]:
    """A bar for each range with weight, with what even attention would give."""
    some = with_weight(ranges)
    if layout.ranges is not None:
        some = _joined(some, layout.ranges)
    if not some:
        return
    if layout.ranges == 0:
        words = [f"{each.label} {each.weight:.3f}" for each in some]
        yield packed_text([f"distance back: {words[0]}", *words[1:]], screen)
        return
    yield from [""] * layout.spaced
    words = packed([title, "share of the weight, and of even attention"], screen.width, " ")
    if not layout.spaced and len(words) > 1:
        words = packed(["distance back:", "weight, even"], screen.width, " ")
    yield Text("\n".join(words), BOLD)
    longest = max(each.weight for each in some)
    label = max(len(each.label) for each in some)
    for each in some:
        line = f"  {each.label:>{label}}  {each.weight:5.3f}  {each.baseline:5.3f}  "
        yield Text(line + bar(each.weight, max(4, min(40, screen.width - len(line))), longest))
