"""The mode of each run: the cheapest in which a run without interventions, tried once, gives the baseline's output."""

from collections.abc import Sequence
from functools import cached_property

from attn_cli.model.intervention import Intervention, RunMode
from attn_cli.sources.huggingface.intervene.asked_rows import AskedRows
from attn_cli.sources.huggingface.intervene.checked_runs import CheckedRuns, RunPlan
from attn_cli.sources.huggingface.intervene.runner import Runner


class RunModes:
    """How runs with interventions compute their rows, the cheapest that is right: "cache", "prefix" or "whole".

    "cache" runs the last rows alone over kept keys and values, "prefix" all rows from the first changed block on,
    "whole" all rows of all blocks.

    obstacle     why runs can't go on from the baseline's keys and values, as far as is known; "" where they may
    cache_holds  whether such a run gave the baseline's output; None before it is tried
    """

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
        return self.without_cache == "prefix" and all(self._is_baseline("cache", first, x) for x in self._some_skips)

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
