"""The parts of a text that an answer, or each of its sentences, needed."""

from collections.abc import Sequence
from dataclasses import dataclass

from attn_cli.model.intervention import Outcome
from attn_cli.summaries.parts.hidden import NEEDED_BITS, NEEDED_SHARE, AnswerBits, HiddenParts

_LEAST_SHARE = 0.1  # of what an answer's tokens lose together: one that loses less is not named


@dataclass(frozen=True)
class Citation:
    """A piece of an answer, and the parts of the text without which it is less likely.

    Bits are changes of the piece's log2 p with parts masked: negative where they were needed. The context is all parts
    before the question.

    text    the piece
    needed  (part number, bits): parts without which it is half as likely or less (-1 or below), most needed first; of
            at least a quarter of the first's bits
    either  two parts that replace each other: without one of them it loses less than half of what it loses without the
            context, without both half or more; else ()
    without  the bits with both of these masked; None where `either` is ()
    bits    the bits with the whole context masked; None where that was not run

    Without needed or either parts the piece rests on the question, or on what the model learned.
    """

    text: str
    needed: tuple[tuple[int, float], ...]
    either: tuple[int, ...]
    bits: float | None
    without: float | None = None


def citation_of(hidden: HiddenParts, context: Sequence[int], text: str) -> Citation:
    """Which parts of the text an answer needed: those without which it is half as likely or less."""
    bits = AnswerBits(hidden.outcomes, hidden.together, context)
    least = max(NEEDED_BITS, -NEEDED_SHARE * min(bits.of_parts.values(), default=0.0))
    needed = sorted(((part, value) for part, value in bits.of_parts.items() if value <= -least), key=lambda x: x[1])
    without = bits.without_pair(hidden.pairs)
    return Citation(text, tuple(needed), () if without is None else bits.pair, bits.together, without)


def tokens_needing(outcome: Outcome | None, tokens: int) -> slice:
    """An answer's tokens from the first to the last that by itself loses a tenth or more of what all lose, as a
    slice.
    """
    bits = () if outcome is None else outcome.token_bits
    least = _LEAST_SHARE * sum(bits)
    losing = [at for at, own in enumerate(bits) if own <= least < 0]
    return slice(losing[0], losing[-1] + 1) if losing else slice(0, tokens)
