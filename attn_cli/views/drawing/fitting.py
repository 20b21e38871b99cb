"""What a screen shows of an answer that is higher: sections in versions, from the full one to the least."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from rich.console import RenderableType

from attn_cli.views.drawing.cells import height_of, packed_text
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD

Draw = Callable[[], Iterable[RenderableType]]


class Version(NamedTuple):
    """One way to draw a section.

    draw      makes what is printed
    rank      a screen that is too low takes versions of a lower rank first; the first of a section has none
    left_out  what it leaves out, in words; "" for nothing
    """

    draw: Draw
    rank: int = 0
    left_out: str = ""


Section = Sequence[Version]


def whole(*renderables: RenderableType) -> Section:
    """A section that stays as it is."""
    return [Version(lambda: renderables)]


def shorter(draw: Callable[[int], Iterable[RenderableType]], counts: range, noun: str, rank: int = 1) -> list[Version]:
    """Versions of a list that shows so many of its entries, from many to few; `noun` names one that is left out.

    The first of `counts` is all of them.
    """

    def version(count: int) -> Version:
        left = counts[0] - count
        return Version(lambda: draw(count), rank, f"{left:,} {noun}{'s' * (left > 1)}" if noun and left else "")

    return [version(count) for count in counts]


def fitted(sections: Sequence[Section], screen: Screen, *hints: str) -> Iterator[RenderableType]:
    """The sections in their order, as full as the screen's height allows, and a line that says what is left out.

    Of the versions that are next, that of the lowest rank is taken, then that of the first section, until all fits.

    hints  more ways to see the rest
    """
    taken = [0] * len(sections)
    drawn = [list(section[0].draw()) for section in sections]
    while True:
        note = _note([section[at].left_out for section, at in zip(sections, taken, strict=True)], screen, hints)
        more = [(section[at + 1].rank, number) for number, (section, at) in enumerate(zip(sections, taken, strict=True))
                if at + 1 < len(section)]  # fmt: skip
        lines = sum(height_of(each, screen) for part in (*drawn, note) for each in part)
        if screen.height is None or lines <= screen.height or not more:
            break
        _, number = min(more)
        taken[number] += 1
        drawn[number] = list(sections[number][taken[number]].draw())
    for part in (*drawn, note):
        yield from part


def _note(left_out: Sequence[str], screen: Screen, hints: Sequence[str]) -> list[RenderableType]:
    """`… more: 2 examples · quantiles · add | less for all`; nothing where all is there."""
    words = list(dict.fromkeys(filter(None, left_out)))
    if not words:
        return []
    return [packed_text([f"… more: {words[0]}", *words[1:], "add | less for all", *hints], screen, BOLD)]
