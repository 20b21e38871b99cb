"""The effect on the answer of hiding a part of the text, or all parts but one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from attn_cli.model.intervention import LOOKS_AHEAD, Experiment, Intervention, Outcome, RunMode, Target
from attn_cli.prompt import Prompt
from attn_cli.selection import Selection
from attn_cli.summaries.parts.text_parts import TextPart

NEEDED_BITS = 1.0
"""An answer needs what halves its probability, or more, when it is hidden."""
NEEDED_SHARE = 0.25
"""Of the bits that an answer loses without the part that it needs most: what another part is worth that it needs."""


@dataclass(frozen=True, eq=False)
class HiddenParts:
    """What masking each part of a text changes of the answer.

    outcomes    one for each part, in the order of the text; an effect that can't be told from rounding is 0
    target      the answer; None of a model without a language-model head, whose mean vectors are compared
    everywhere  whether parts were masked for all rows after them, not only for those that predict the answer's tokens
    rounding    the largest |change| of log2 p, or cosine distance, in a run in which nothing was masked
    run_mode    how rows were computed: "cache" (last rows alone, by the KV cache), "prefix" (whole passes from the
                first changed block on) or "whole"
    no_cache_reason  why that wasn't "cache"; "" where it was
    together    the outcome with the whole context masked, the parts before the question; None if these are under two
    pairs       by their numbers the outcomes of masking the two parts at once that the answer needs most,
                only where masking parts one by one explains less than half of what the answer loses without the context
    """

    outcomes: tuple[Outcome | None, ...]
    target: Target | None
    everywhere: bool
    rounding: float
    run_mode: RunMode
    no_cache_reason: str
    together: Outcome | None = None
    pairs: Mapping[tuple[int, int], Outcome] = field(default_factory=dict)

    @property
    def effects(self) -> list[float]:
        """For each part the change of log2 p of the answer, in bits, with it masked: negative where it was needed."""
        known = [outcome or Outcome() for outcome in self.outcomes]
        return [x.bits or 0.0 if self.target else -(x.cosine_distance or 0.0) for x in known]


@dataclass(frozen=True)
class AnswerContext:
    """What an answer may come from: the parts of the text before the question.

    parts   their numbers, ascending
    kept    the indices of tokens that are sinks, which are never masked
    """

    parts: tuple[int, ...] = ()
    kept: frozenset[int] = frozenset()


def hide_parts(
    experiment: Experiment,
    prompt: Prompt,
    parts: Sequence[TextPart],
    selection: Selection,
    *,
    everywhere: bool,
    step: Callable[[], None],
    context: AnswerContext = AnswerContext(),
) -> HiddenParts:
    """Mask each part of a text in turn, then all that the answer may come from; a part without tokens has an effect of
    0.
    """
    nothing = Outcome(bits=0.0) if experiment.target else Outcome(cosine_distance=0.0)
    # in an encoder, also one before a decoder, a part is hidden from all rows
    after = everywhere and experiment.target is not None and "decoder" not in prompt.others
    rows = {
        number: rows_after(part, len(prompt.tokens))
        for number, part in enumerate(parts)
        if part.tokens and part.kind != "generated"
    }
    by_first_row = sorted(number for number in rows if not after or rows[number])
    if after:  # runs of neighbours begin at about the same row
        by_first_row.sort(key=lambda number: rows[number][0])

    def without(numbers: Sequence[int], rows: tuple[int, ...] | None = None) -> Intervention:
        tokens = tuple(token for number in numbers for token in parts[number].tokens)
        seen = tuple(token for token in tokens if token not in context.kept) or tokens
        return Intervention(hidden=seen, rows=rows, hidden_from=selection)

    interventions = [without([number], rows[number] if after else None) for number in by_first_row]
    asks_context = experiment.target is not None and not everywhere and len(context.parts) > 1
    runs = experiment.outcomes([*interventions, *([without(context.parts)] if asks_context else [])])
    outcomes: list[Outcome | None] = [None if part.kind == "generated" else nothing for part in parts]
    for number, outcome in zip(by_first_row, runs, strict=False):
        outcomes[number] = outcome
        step()
    together, floor = next(runs, None), experiment.noise_floor
    real = tuple(nothing if x is not None and floor.is_rounding(x.effect) else x for x in outcomes)
    bits = None if together is None else AnswerBits(real, together, context.parts)
    wanted = [] if bits is None or bits.is_explained else [bits.pair]
    pairs = dict(zip(wanted, experiment.outcomes([*map(without, wanted)]), strict=True))
    run_mode = experiment.run_mode_of(interventions)
    no_cache = experiment.no_cache_reason or ("" if run_mode == "cache" else LOOKS_AHEAD)
    return HiddenParts(real, experiment.target, everywhere, floor.effect, run_mode, no_cache, together, pairs)


class AnswerBits:
    """What an answer loses with each part of the context masked, and with all of them, in bits of log2 p.

    of_parts   by number of a part the change of log2 p with it masked
    together   the change with all of them masked; None where that was not run
    """

    def __init__(self, outcomes: Sequence[Outcome | None], together: Outcome | None, context: Sequence[int]) -> None:
        self.of_parts = {part: outcome.bits or 0.0 for part in context if (outcome := outcomes[part])}
        self.together = None if together is None else together.bits or 0.0

    @property
    def pair(self) -> tuple[int, int]:
        """The numbers of the two parts whose masking, one at a time, lowers the answer's log2 p most, ascending."""
        first, second = sorted(sorted(self.of_parts, key=lambda part: self.of_parts[part])[:2])
        return first, second

    @property
    def is_explained(self) -> bool:
        """True if the losses with single parts masked add up to half of that with all masked, or more."""
        together = self.together or 0.0
        return together > -NEEDED_BITS or sum(x for x in self.of_parts.values() if x < 0) <= together / 2

    def without_pair(self, pairs: Mapping[tuple[int, int], Outcome]) -> float | None:
        """The change of the answer's log2 p, in bits, without the two parts it needs most, if they replace each
        other.
        """
        if self.is_explained or self.pair not in pairs:
            return None
        lost = pairs[self.pair].bits or 0.0
        return lost if lost <= (self.together or 0.0) / 2 else None


def runs_to_hide(prompt: Prompt, parts: Sequence[TextPart], *, everywhere: bool, whole: bool) -> float:
    """About what masking all parts one by one costs, as a multiple of one run of the text."""
    if not everywhere and not whole:
        return 1.0
    begins = [0 if whole else part.tokens[0] for part in parts if part.tokens]
    return 1 + sum(1 - begin / len(prompt.tokens) for begin in begins)


def rows_after(part: TextPart, n: int) -> tuple[int, ...]:
    """The rows of n from the part's first token on that are none of its own tokens; () for a part of no tokens."""
    own = set(part.tokens)
    return tuple(row for row in range(part.tokens[0], n) if row not in own) if own else ()
