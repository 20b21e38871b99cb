"""The register of usual mistakes in attention kernels: each made on purpose, to know wrong numbers by their cause.

An entry is a `Mistake` with a name and a sentence. Mistakes in the rule are tried two at once.
"""

from collections.abc import Callable, Iterator

from attn_cli.kernel.lessons.mistakes.axes import axis_mistakes
from attn_cli.kernel.lessons.mistakes.fitted import Fitted, fitted_mistakes
from attn_cli.kernel.lessons.mistakes.heads import head_mistakes
from attn_cli.kernel.lessons.mistakes.keys import key_mistakes
from attn_cli.kernel.lessons.mistakes.problem import AttendedTo, Mistake, OtherAngles, Problem
from attn_cli.kernel.lessons.mistakes.rotary import rotary_mistakes
from attn_cli.kernel.lessons.mistakes.scale_mask_softcap import rule_mistakes
from attn_cli.kernel.lessons.mistakes.sums import sum_mistakes
from attn_cli.kernel.lessons.mistakes.tiles import tile_mistakes

__all__ = [
    "REGISTER",
    "AttendedTo",
    "Fitted",
    "Mistake",
    "OtherAngles",
    "Problem",
    "fitted_mistakes",
    "mistakes",
    "sum_mistakes",
]

REGISTER: tuple[Callable[[Problem], Iterator[Mistake]], ...] = (
    rule_mistakes,
    axis_mistakes,
    head_mistakes,
    key_mistakes,
    rotary_mistakes,
    tile_mistakes,
)


def mistakes(problem: Problem) -> Iterator[Mistake]:
    """The usual mistakes of implementations of this attention, the more usual families first.

    Scale, mask and softcap; softmax and mask; heads; keys; rotary positions; tiles.
    """
    for family in REGISTER:
        yield from family(problem)
