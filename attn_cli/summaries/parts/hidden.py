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
    """The effects on the answer of hiding one part each.

    outcomes    one for each part, in the order of the text; an effect that can't be told from rounding is 0
    target      the answer; None of a model without a language-model head, whose mean vectors are compared
    everywhere  whether parts were hidden from all rows after them, and not from the rows that read alone
    rounding    the largest effect of an untouched copy
    run_mode, no_cache_reason  as for `Experiment`
    together    of hiding the whole context at once; None where it is fewer than two parts
    alone       by part of the context, of hiding the rest of it: only where hiding parts one by one explains less than
                half of what the answer loses without the context, as where two hold the same fact
    """

    outcomes: tuple[Outcome, ...]
    target: Target | None
    everywhere: bool
    rounding: float
    run_mode: RunMode
    no_cache_reason: str
    together: Outcome | None = None
    alone: Mapping[int, Outcome] = field(default_factory=dict)

    @property
    def effects(self) -> list[float]:
        """By part: bits of log2 p(target), negative where the part was needed; or minus 1 - cosine."""
        return [outcome.bits or 0.0 if self.target else -(outcome.cosine_distance or 0.0) for outcome in self.outcomes]


@dataclass(frozen=True)
class AnswerContext:
    """The context of an answer: the parts before the question.

    parts  their numbers, ascending
    kept   sinks, which stay in sight
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
    """Hide each part in turn, then the context; a part of no tokens, and what is rounding, has an effect of 0.

    Sinks stay in sight, unless a part is nothing else: the weight on a hidden sink goes to other keys.
    """
    nothing = Outcome(bits=0.0) if experiment.target else Outcome(cosine_distance=0.0)
    # in an encoder, also one before a decoder, a part is hidden from all rows
    after = everywhere and experiment.target is not None and "decoder" not in prompt.others
    rows = {number: rows_after(part, len(prompt.tokens)) for number, part in enumerate(parts) if part.tokens}
    by_first_row = sorted(number for number in rows if not after or rows[number])
    if after:  # runs of neighbours begin at about the same row
        by_first_row.sort(key=lambda number: rows[number][0])
    keys = {number: _without(parts[number].tokens, context.kept) or parts[number].tokens for number in by_first_row}
    interventions = {
        number: Intervention(hidden=keys[number], rows=rows[number] if after else None, hidden_from=selection)
        for number in by_first_row
    }
    outcomes = [nothing] * len(parts)
    for number, outcome in zip(interventions, experiment.outcomes([*interventions.values()]), strict=True):
        outcomes[number] = outcome
        step()

    def run_without(hidden: Sequence[Sequence[int]]) -> list[Outcome]:
        """The outcomes of hiding several parts at once, as often as there are lists of their numbers."""
        tokens = [_without([token for at in numbers for token in parts[at].tokens], context.kept) for numbers in hidden]
        return list(experiment.outcomes([Intervention(hidden=keys, hidden_from=selection) for keys in tokens]))

    together: Outcome | None = None
    alone: dict[int, Outcome] = {}
    if experiment.target is not None and not everywhere and len(context.parts) > 1:
        (together,) = run_without([context.parts])
        if is_needed(together) and not are_enough([outcomes[at].bits or 0.0 for at in context.parts], together.bits):
            others = [[at for at in context.parts if at != one] for one in context.parts]
            alone = dict(zip(context.parts, run_without(others), strict=True))
    floor = experiment.noise_floor
    real = tuple(nothing if floor.is_rounding(outcome.effect) else outcome for outcome in outcomes)
    run_mode = experiment.run_mode_of([*interventions.values()])
    no_cache = experiment.no_cache_reason or ("" if run_mode == "cache" else LOOKS_AHEAD)
    return HiddenParts(real, experiment.target, everywhere, floor.effect, run_mode, no_cache, together, alone)


def are_enough(bits: Sequence[float], together: float | None) -> bool:
    """True if the losses of hiding parts one by one come to half of what is lost with all of them hidden, or more."""
    return sum(x for x in bits if x < 0) <= (together or 0.0) / 2


def _without(tokens: Sequence[int], kept: frozenset[int]) -> tuple[int, ...]:
    return tuple(token for token in tokens if token not in kept)


def is_needed(outcome: Outcome) -> bool:
    """True if the answer needs what was hidden."""
    return outcome.bits is not None and outcome.bits <= -NEEDED_BITS


def runs_to_hide(prompt: Prompt, parts: Sequence[TextPart], *, everywhere: bool, whole: bool) -> float:
    """The cost of hiding all parts in baseline runs, about, with an untouched copy; 1 from the reading rows alone.

    everywhere  the rows from each part's beginning on run again, by a model's cache
    whole       all rows do, as in an encoder
    """
    if not everywhere and not whole:
        return 1.0
    begins = [0 if whole else part.tokens[0] for part in parts if part.tokens]
    return 1 + sum(1 - begin / len(prompt.tokens) for begin in begins)


def rows_after(part: TextPart, n: int) -> tuple[int, ...]:
    """The rows, of n, after a part begins that are not of the part itself."""
    own = set(part.tokens)
    return tuple(row for row in range(part.tokens[0], n) if row not in own) if own else ()
