"""The parts of a text that an answer, or each of its sentences, needed."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from attn_cli.model.intervention import Outcome, Target
from attn_cli.prompt import Prompt
from attn_cli.sentences import piece_starts
from attn_cli.summaries.parts.hidden import NEEDED_BITS, NEEDED_SHARE, HiddenParts, PieceBits

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


def citation_of(hidden: HiddenParts, context: Sequence[int], text: str, targets: slice = slice(None)) -> Citation:
    """Which parts of the text a piece of the answer needed: those without which it is half as likely or less."""
    bits = PieceBits(hidden.outcomes, hidden.together, context, targets)
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


def citations(hidden: HiddenParts, context: Sequence[int], prompt: Prompt) -> list[Citation]:
    """For each sentence or line of the answer, in order, the parts that it needed, among those numbered `context`."""
    assert hidden.target is not None
    return [citation_of(hidden, context, text, targets) for text, targets in pieces_of(hidden.target, prompt)]


def pieces_of(target: Target, prompt: Prompt) -> list[tuple[str, slice]]:
    """The sentences and lines of the answer `target`: the text of each, and the slice of its tokens that it is."""
    starts = [token.start for token in target.tokens]
    if not target.generated or prompt.generated is None or None in starts or prompt.generated.start is None:
        return [("".join(token.text for token in target.tokens), slice(None))]
    first, end = prompt.generated.start, len(prompt.text)
    begins = {*piece_starts(prompt.text, "sentences", first, end), *piece_starts(prompt.text, "lines", first, end)}
    pieces = []
    for start, stop in pairwise([first, *sorted(begins), end]):
        inside = [at for at, token in enumerate(target.tokens) if start <= (token.start or 0) < stop]
        if prompt.text[start:stop].strip() and inside:
            pieces.append((prompt.text[start:stop], slice(inside[0], inside[-1] + 1)))
    return pieces
