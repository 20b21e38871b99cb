"""The effect on the answer of hiding a part of the text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from attn_cli.intervention import Experiment, Intervention, Outcome, RunMode, Target
from attn_cli.prompt import Prompt
from attn_cli.selection import Selection
from attn_cli.summaries.parts.text_parts import TextPart


@dataclass(frozen=True, eq=False)
class HiddenParts:
    """The effects on the answer of hiding one part each.

    outcomes    one for each part, in the order of the text; an effect that can't be told from rounding is 0
    target      the answer; None of a model without a language-model head, whose mean vectors are compared
    everywhere  whether parts were hidden from all rows after them, and not from the rows that read alone
    rounding    the largest effect of an untouched copy
    run_mode, no_cache_reason  as for `Experiment`
    """

    outcomes: tuple[Outcome, ...]
    target: Target | None
    everywhere: bool
    rounding: float
    run_mode: RunMode
    no_cache_reason: str

    @property
    def effects(self) -> list[float]:
        """By part: bits of log2 p(target), negative where the part was needed; or minus 1 - cosine."""
        return [outcome.bits or 0.0 if self.target else -(outcome.cosine_distance or 0.0) for outcome in self.outcomes]


def hide_parts(
    experiment: Experiment,
    prompt: Prompt,
    parts: Sequence[TextPart],
    selection: Selection,
    *,
    everywhere: bool,
    step: Callable[[], None],
) -> HiddenParts:
    """Hide each part in turn; a part of no tokens, and what can't be told from rounding, has an effect of 0."""
    nothing = Outcome(bits=0.0) if experiment.target else Outcome(cosine_distance=0.0)
    # in an encoder, also one before a decoder, a part is hidden from all rows
    after = everywhere and experiment.target is not None and "decoder" not in prompt.others
    rows = {number: rows_after(part, len(prompt.tokens)) for number, part in enumerate(parts) if part.tokens}
    by_first_row = sorted(number for number in rows if not after or rows[number])
    if after:  # runs of neighbours begin at about the same row
        by_first_row.sort(key=lambda number: rows[number][0])
    interventions = {
        number: Intervention(hidden=parts[number].tokens, rows=rows[number] if after else None, hidden_from=selection)
        for number in by_first_row
    }
    outcomes = [nothing] * len(parts)
    for number, outcome in zip(interventions, experiment.outcomes([*interventions.values()]), strict=True):
        outcomes[number] = outcome
        step()
    floor = experiment.noise_floor
    real = tuple(nothing if floor.is_rounding(outcome.effect) else outcome for outcome in outcomes)
    run_mode = experiment.run_mode_of([*interventions.values()])
    no_cache = experiment.no_cache_reason or ("" if run_mode == "cache" else "rows see what comes after them")
    return HiddenParts(real, experiment.target, everywhere, floor.effect, run_mode, no_cache)


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
