"""The parts of a text that an answer, or each of its sentences, needed."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from attn_cli.model.intervention import Outcome, Target
from attn_cli.prompt import Prompt
from attn_cli.sentences import piece_starts
from attn_cli.summaries.parts.hidden import NEEDED_BITS, NEEDED_SHARE, HiddenParts, are_enough


@dataclass(frozen=True)
class Citation:
    """A piece of an answer, and the parts that it needed.

    text    the piece
    needed  (part, bits): parts without which it is half as likely or less, most needed first; of at least a quarter of
            the first's bits
    either  parts of which each suffices, where losses one by one come to less than half of that without the context
    bits    the change of its log2 p with the whole context hidden; None where that was not run

    None needed, none of either: the piece rests on the question, or on what the model learned.
    """

    text: str
    needed: tuple[tuple[int, float], ...]
    either: tuple[int, ...]
    bits: float | None


def citation_of(hidden: HiddenParts, context: Sequence[int], text: str, targets: slice = slice(None)) -> Citation:
    """The citation of the target's tokens `targets`, whose text is `text`, by the effects of hiding `context`."""
    bits = {part: _bits(hidden.outcomes[part], targets) for part in context}
    together = None if hidden.together is None else _bits(hidden.together, targets)
    least = max(NEEDED_BITS, -NEEDED_SHARE * min(bits.values(), default=0.0))
    needed = sorted(((part, value) for part, value in bits.items() if value <= -least), key=lambda pair: pair[1])
    either: list[int] = []
    if together is not None and together <= -NEEDED_BITS and not are_enough([*bits.values()], together):
        alone = {part: _bits(outcome, targets) for part, outcome in hidden.alone.items()}
        either = sorted((part for part, value in alone.items() if value > together / 2), key=lambda part: -alone[part])
    return Citation(text, tuple(needed), tuple(either), together)


def citations(hidden: HiddenParts, context: Sequence[int], prompt: Prompt) -> list[Citation]:
    """A citation for each sentence or line of the answer, in their order."""
    assert hidden.target is not None
    pieces = _pieces(hidden.target, prompt)
    return [citation_of(hidden, context, text, targets) for text, targets in pieces]


def _bits(outcome: Outcome, targets: slice) -> float:
    """Bits of some of the target's tokens."""
    return sum(outcome.token_bits[targets]) if outcome.token_bits else outcome.bits or 0.0


def _pieces(target: Target, prompt: Prompt) -> list[tuple[str, slice]]:
    """The sentences and lines of the answer: their texts, and where their tokens are among the target's."""
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
