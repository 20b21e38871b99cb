"""A model, a text, its baseline run, and runs with interventions, in batches.

`asked_rows.py` says which rows are changed and which are read, `baseline_answers.py` what is read of them,
`RunModes` how a run computes, and `checked_runs.py` what its outcome is.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from math import log
from typing import Any, Literal, NamedTuple

from attn_cli.call import Look
from attn_cli.errors import InputError
from attn_cli.model.intervention import (
    AttentionLayer,
    HeadPlace,
    Intervention,
    NoiseFloor,
    Outcome,
    RunMode,
    Target,
)
from attn_cli.prompt import Prompt, Token
from attn_cli.sources.huggingface.anatomy.configuration import number_of, text_configuration
from attn_cli.sources.huggingface.intervene.asked_rows import AskedRows
from attn_cli.sources.huggingface.intervene.attention import MANY_ROWS
from attn_cli.sources.huggingface.intervene.baseline_answers import BaselineAnswers
from attn_cli.sources.huggingface.intervene.checked_runs import CheckedRuns, RunPlan
from attn_cli.sources.huggingface.intervene.differentiated import GatedRows
from attn_cli.sources.huggingface.intervene.runner import Runner
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel

_FEWEST_ROWS = 16  # of which a mean of heads is taken: one row then holds a sixteenth of it
_MOST = 64  # interventions at once
_MOST_ROWS = 512  # of all of them
_BYTES = 1 << 29  # the most that the logits of one batch take


class RunModes:
    """How runs with interventions compute their rows, the cheapest that is right: "cache", "prefix" or "whole"."""

    def __init__(self, runner: Runner, asked: AskedRows, runs: CheckedRuns) -> None:
        self._runner, self._asked, self._runs = runner, asked, runs
        self.obstacle = self._known_obstacle()
        self.cache_holds: bool | None = None

    def _known_obstacle(self) -> str:
        if not self._runs.is_batchable:
            return "inputs other than text run one by one"
        if not self._runner.first:
            return "all rows run"
        return "" if self._runner.has_cache else self._runner.calls.no_cache_reason

    @property
    def trial(self) -> RunPlan:
        """The run that tries whether the last rows alone, over kept keys and values, give the baseline's output."""
        return RunPlan("cache", self._runner.first, 0)

    @property
    def no_cache_reason(self) -> str:
        """Why runs can't go on from the baseline's keys and values; "" where they can, as one trial tells."""
        while not self.obstacle and self.cache_holds is None:
            self.note_trial(self._runs.is_baseline(self.trial))
        return self.obstacle

    def note_trial(self, holds: bool) -> None:
        """Note whether the last rows alone gave the baseline's output (`holds`)."""
        calls = self._runner.calls
        if not holds and calls.past and self._runner.has_cache:
            calls.forget_past()
            return
        self.cache_holds = holds
        if not holds:
            again = "running the last rows from the KV cache doesn't reproduce the full pass"
            self.obstacle = calls.no_cache_reason or again

    @cached_property
    def without_cache(self) -> RunMode:
        """The mode of runs of all rows: "prefix", which skips the first blocks, if that gives the baseline's output."""
        skips = self._runs.is_batchable and self._runner.blocks > 1
        return "prefix" if skips and all(self._is_baseline("prefix", 0, x) for x in self._some_skips) else "whole"

    @cached_property
    def skips_with_cache(self) -> bool:
        """True if the last rows alone, over kept keys and values, can also skip blocks; tried when it is first read."""
        first = self._runner.first
        return self._runner.blocks > 1 and all(self._is_baseline("cache", first, x) for x in self._some_skips)

    @property
    def _some_skips(self) -> list[int]:
        return sorted({self._runner.blocks // 2, max(self._runner.blocks - 1, 0)})

    def _is_baseline(self, mode: RunMode, first: int, skip: int) -> bool:
        return self._runs.is_baseline(RunPlan(mode, first, skip))

    def of(self, interventions: Sequence[Intervention]) -> RunMode:
        """How a run with these interventions computes its rows, the cheapest way that is right."""
        calls, first_run = self._runner.calls, self._runner.first
        firsts = {self._asked.first_of(intervention) for intervention in interventions}
        if not self.obstacle and all(x >= first_run and calls.is_causal_before(x) for x in firsts):
            return "cache"
        return self.without_cache if self._runner.skippable(self._asked.batch(interventions, 0)) else "whole"

    def plan(self, intervention: Intervention) -> RunPlan:
        """How a run with this intervention alone computes: its mode, the first row that runs, the blocks skipped."""
        mode, calls = self.of([intervention]), self._runner.calls
        if mode == "whole":
            return RunPlan(mode, 0, 0)
        if mode == "cache" and not calls.past:  # the model's own is of the rows before one row alone
            return RunPlan(mode, self._runner.first, 0)
        first = self._asked.first_of(intervention) if mode == "cache" else 0
        blocks = self._runner.skippable(self._asked.batch([intervention], first))
        return RunPlan(mode, first, blocks if mode == "prefix" or (blocks and self.skips_with_cache) else 0)


class _Batch(NamedTuple):
    """Interventions that run side by side, and how that run computes."""

    plan: RunPlan
    interventions: list[Intervention]


class ModelExperiment:
    """Runs of one model over one text with interventions (heads ablated, tokens hidden).

    Each is held against the run without, the baseline.

    tokens     of the stack whose rows these are: the decoder's in an encoder-decoder
    rows       in which interventions hold, ascending
    target     the answer's tokens, with their probability in the baseline; None without an LM head
    likeliest  the five likeliest tokens after the last row that chooses one of these; () without an LM head
    layers     every attention layer that ran
    visited    whether the visitor that was given saw the baseline's attention
    """

    def __init__(
        self,
        loaded: LoadedModel,
        prompt: Prompt,
        arguments: Mapping[str, Any],
        rows: Sequence[int] | None = None,
        *,
        everywhere: bool = False,
        mean: bool = False,
        earliest: int | None = None,
        look: Look | None = None,
    ) -> None:
        """Run the baseline."""
        self._asked = AskedRows(loaded, prompt, rows, everywhere=everywhere)
        self.tokens: Sequence[Token] = self._asked.tokens
        self.rows = self._asked.rows
        if mean and len(self.tokens) < _FEWEST_ROWS:
            raise InputError(
                f"mean ablation over {len(self.tokens)} rows would mostly return the head's own output",
                f"--mean needs a text of {_FEWEST_ROWS} tokens or more",
            )
        first = self._asked.first if earliest is None else min(earliest, self._asked.first)
        self._runner = Runner(loaded, arguments, len(self.tokens), first, wants_means=mean)
        # the loss of the text needs the logits of all rows
        every = loaded.generating is None or len(self.rows) == len(self.tokens)
        chooses = self._asked.choosing[0] if self._asked.generated else self.rows[-1]
        output = self._runner.baseline(0 if every else chooses, prompt, look)
        self._answers = BaselineAnswers(self._runner, self._asked, output, with_loss=every)
        self.target: Target | None = self._answers.target
        self.likeliest = self._answers.likeliest
        self.visited = self._runner.visited
        self.layers: Sequence[AttentionLayer] = tuple(self._runner.calls.layers.values())
        self._runs = CheckedRuns(self._runner, self._asked, self._answers, prompt)
        self._modes = RunModes(self._runner, self._asked, self._runs)

    @property
    def noise_floor(self) -> NoiseFloor:
        """The most that runs in which nothing is changed have differed from the baseline so far, which is rounding."""
        return self._runs.noise_floor

    @property
    def vector(self) -> Literal["mean", "first"]:
        """Without an LM head, which vectors are compared: the mean of all tokens, or the first."""
        return self._runs.vector

    @vector.setter
    def vector(self, vector: Literal["mean", "first"]) -> None:
        self._runs.vector = vector

    @property
    def run_mode(self) -> RunMode:
        """How runs compute rows: "cache", the last rows alone over kept keys and values, "prefix" or "whole"."""
        return self._modes.without_cache if self.no_cache_reason else "cache"

    @property
    def no_cache_reason(self) -> str:
        """The reason why runs can't go on from the baseline's keys and values; "" where they can."""
        return self._modes.no_cache_reason

    def run_mode_of(self, interventions: Sequence[Intervention]) -> RunMode:
        """How runs with these interventions compute rows: "cache", "prefix" or "whole"."""
        return self._modes.of(interventions)

    def outcomes(self, interventions: Sequence[Intervention], *, with_loss: bool = False) -> Iterator[Outcome]:
        """What each intervention changes against the baseline, in their order."""
        done = 0
        while done < len(interventions):
            outcomes = self._outcomes_of_batch(next(self._batches(interventions[done:], with_loss)), with_loss)
            yield from outcomes
            done += len(outcomes)

    def outcomes_from_cache(
        self, interventions: Sequence[Intervention], step: Callable[[int, int], None] = lambda done, count: None
    ) -> list[Outcome] | None:
        """What each intervention changes, as `outcomes` gives it, by the last rows over the baseline's KV cache.

        step  is told how many more are done, out of how many; first 0
        """
        outcomes: list[Outcome] = []
        step(0, len(interventions))
        while len(outcomes) < len(interventions):
            batch = next(self._batches(interventions[len(outcomes) :], with_loss=False))
            if batch.plan.mode != "cache":
                return None
            some = self._outcomes_of_batch(batch, with_loss=False)
            step(len(some), len(interventions))
            outcomes += some
        return outcomes

    def estimated_effects(self) -> dict[HeadPlace, float]:
        """For every head the change of the answer's log2 p by ablating it, in bits, to first order."""
        batch = GatedRows(self._asked.in_text, first=self._runner.first)
        can_run = not self._modes.obstacle and self._runner.calls.past
        derived = self._answers.derivatives(batch) if can_run else None
        if derived is None:
            return {}
        return {
            HeadPlace(layer, head, stream): -slope / log(2)
            for (layer, stream), of_layer in zip(batch.gates, derived, strict=True)
            for head, slope in enumerate(of_layer)
        }

    @property
    def first_again(self) -> int:
        """The first row that `run_again` runs; 0 where the last rows can't run alone."""
        return 0 if self.no_cache_reason else self._runner.first

    def run_again(self) -> None:
        """Run the rows from `first_again` on once more, with nothing changed."""
        first = self.first_again
        self._runner.with_interventions(self._asked.batch([Intervention()], first), "cache" if first else "whole", 0, 0)

    def _batches(self, interventions: Sequence[Intervention], with_loss: bool) -> Iterator[_Batch]:
        batch: _Batch | None = None
        for intervention in interventions:
            own = self._modes.plan(intervention)
            if batch is not None and self._fits(batch, own, with_loss):
                batch.interventions.append(intervention)
                continue
            if batch is not None:
                yield batch
            batch = _Batch(own, [intervention])
        if batch is not None:
            yield batch

    def _fits(self, batch: _Batch, own: RunPlan, with_loss: bool) -> bool:
        count, plan = len(batch.interventions), batch.plan
        if own.mode != plan.mode or own.skip < plan.skip or own.first < plan.first:
            return False
        is_busy = count * self._rows_that_run(plan.first) >= MANY_ROWS
        if is_busy and (own.skip > plan.skip or own.first > plan.first):
            return False
        return count < self._most(plan, with_loss)

    def _most(self, plan: RunPlan, with_loss: bool) -> int:
        """The most interventions of a batch, so that their logits fit and their rows stay in the processor's cache."""
        words = (number_of(text_configuration(self._runner.model.config), "vocab_size") or 1) if self.target else 1
        spoken = len(self.tokens) - max(plan.first, self._answers.first_row(with_loss=with_loss))
        most = min(_MOST, _BYTES // (4 * spoken * words) - 1, _MOST_ROWS // self._rows_that_run(plan.first))
        if plan.mode == "cache" and self._modes.cache_holds:
            most = min(most, _BYTES // max(self._runner.bytes_of_variant, 1))
        return max(1, most)

    def _rows_that_run(self, first: int) -> int:
        return len(self.tokens) - first

    def _outcomes_of_batch(self, batch: _Batch, with_loss: bool) -> list[Outcome]:
        """One run of these interventions side by side; a batch that can be the trial of the cache is it, too."""
        if batch.plan.mode != "cache" or self._modes.cache_holds is not None:
            return self._runs.outcomes(batch.plan, batch.interventions, with_loss=with_loss)
        trial = self._modes.trial
        tried = batch.interventions if batch.plan == trial else []
        outcomes = self._runs.outcomes_if_same(trial, tried, with_loss=with_loss)
        self._modes.note_trial(outcomes is not None)
        return outcomes or []
