"""The weight of a head of a scan by distance: a bar for each range that has some."""

from collections.abc import Iterator, Sequence

from rich.text import Text

from attn_cli.summaries.scanned.head import WeightRange
from attn_cli.views.drawing.bars import bar
from attn_cli.views.drawing.cells import packed
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD

_FEWEST_RANGES = 0.005  # of all weight: smaller ranges at the ends are left out


def with_weight(ranges: Sequence[WeightRange]) -> list[WeightRange]:
    """The ranges from the first with weight to the last."""
    some = [at for at, each in enumerate(ranges) if each.weight >= _FEWEST_RANGES]
    return list(ranges[some[0] : some[-1] + 1]) if some else []


def bars_of_ranges(ranges: Sequence[WeightRange], screen: Screen) -> Iterator[Text | str]:
    """A bar for each range of distances, with its value under uniform attention."""
    yield ""
    words = packed(
        ["distance back from the query:", "share of the weight, and of uniform attention"], screen.width, " "
    )
    yield Text("\n".join(words), BOLD)
    longest = max(each.weight for each in ranges)
    label = max(len(each.label) for each in ranges)
    for each in ranges:
        line = f"  {each.label:>{label}}  {each.weight:5.3f}  {each.baseline:5.3f}  "
        yield Text(line + bar(each.weight, max(4, min(40, screen.width - len(line))), longest))
