"""What a screen shows of an answer that is higher: sections in versions, from the full one to the least."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from rich.console import RenderableType

from attn_cli.views.drawing.cells import height_of, packed_text
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD


class Version(NamedTuple):
    """One way to draw a section.

    draw      makes what is printed
    rank      a screen that is too low takes versions of a lower rank first; the full one of a section has rank 0
    left_out  what it leaves out, in words; "" for what is no loss
    """

    draw: Callable[[], Iterable[RenderableType]]
    rank: int = 0
    left_out: str = ""


Section = Sequence[Version]


def whole(*drawn: RenderableType) -> Section:
    """A section that stays as it is."""
    return [Version(lambda: drawn)]


def shorter(
    draw: Callable[[int], Iterable[RenderableType]], total: int, least: int, screen: Screen, noun: str, rank: int = 1
) -> Section:
    """A list by so many of its `total` entries: all of them, or as many as the screen has lines, down to `least`.

    noun  names one that is left out
    """
    most = total if screen.height is None else min(total, screen.height)

    def version(count: int) -> Version:
        left = total - count
        words = f"{left:,} {noun}{'s' * (left > 1)}" if left and noun else ""
        return Version(lambda: draw(count), rank * (count < most), words)

    fewest = most if screen.height is None else min(least, most)
    return [version(count) for count in range(most, fewest - 1, -1)]


def fitted(sections: Sequence[Section], screen: Screen, *hints: str) -> Iterator[RenderableType]:
    """The sections in their order, as full as the screen's height allows, and a line that says what is left out.

    Of the versions that are next, that of the lowest rank is taken, among equals that of the last section, until all
    fits; then sections go back as far as there is room, those first that were to last longest.

    hints  more ways to see the rest
    """
    if screen.height is None:
        for section in sections:
            yield from section[0].draw()
        return

    @cache
    def drawn(number: int, at: int) -> list[RenderableType]:
        return list(sections[number][at].draw())

    def printed(taken: Sequence[int]) -> list[RenderableType]:
        left_out = [sections[number][at].left_out for number, at in enumerate(taken)]
        return [*(each for place in enumerate(taken) for each in drawn(*place)), *_note(left_out, screen, hints)]

    def fits(taken: Sequence[int]) -> bool:
        return sum(height_of(each, screen) for each in printed(taken)) <= lines

    taken, lines = [0] * len(sections), screen.height
    while not fits(taken):
        more = [(sections[number][at + 1].rank, -number) for number, at in enumerate(taken)
                if at + 1 < len(sections[number])]  # fmt: skip
        if not more:
            break
        taken[-min(more)[1]] += 1
    else:
        shrunk = [number for number, at in enumerate(taken) if at]
        for number in sorted(shrunk, key=lambda each: -sections[each][1].rank):
            while taken[number] and fits([at - (each == number) for each, at in enumerate(taken)]):
                taken[number] -= 1
    yield from printed(taken)


def _note(left_out: Sequence[str], screen: Screen, hints: Sequence[str]) -> list[RenderableType]:
    """`… more: 2 examples · quantiles · add | less for all`; nothing where all is there."""
    first, *others = dict.fromkeys(filter(None, left_out)) or [""]
    words = [f"… more: {first}", *others, "add | less for all", *hints]
    return [packed_text(words, screen, BOLD)] if first else []
