"""Runs of interventions side by side, and beside untouched copies, whose difference to the baseline is rounding."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch

from attn_cli.errors import LoadError
from attn_cli.model.intervention import Intervention, NoiseFloor, Outcome, RunMode
from attn_cli.prompt import Prompt
from attn_cli.sources.huggingface.anatomy.forward_arguments import INPUT_ERRORS, out_of_memory
from attn_cli.sources.huggingface.intervene.asked_rows import AskedRows
from attn_cli.sources.huggingface.intervene.baseline_answers import BaselineAnswers
from attn_cli.sources.huggingface.intervene.runner import Runner
from attn_cli.sources.huggingface.read.input_files import ArrayPrompt

_UNTOUCHED = Intervention()
_MANY = 8  # interventions beside which an untouched copy costs little
_SAME = 1e-3  # bits by which an untouched copy may differ where rounding in low precision is all that differs
_SAME_FROM_MODELS_CACHE = 1e-4  # the same in float32 from a model's own cache, which may round more than its pass


class RunPlan(NamedTuple):
    """How a run computes its rows, and what it leaves out.

    mode   "cache": rows from `first` on alone, over kept keys and values; "prefix": all rows, but of no block
           before the first changed one; "whole": all rows of all blocks
    first  the first row that runs
    skip   how many calls of blocks are left out at the beginning, as no intervention changes them
    """

    mode: RunMode
    first: int
    skip: int


class CheckedRuns:
    """Runs with interventions over one text, each held against the run without, the baseline."""

    def __init__(self, runner: Runner, asked: AskedRows, answers: BaselineAnswers, prompt: Prompt) -> None:
        self._runner, self._asked, self._answers = runner, asked, answers
        self.noise_floor = NoiseFloor()
        self.vector: Literal["mean", "first"] = "mean"
        self.is_batchable = not isinstance(prompt, ArrayPrompt)
        self._beside: dict[tuple[RunPlan, bool], int] = {}  # most interventions beside a copy, by plan and loss

    def outcomes(self, plan: RunPlan, interventions: Sequence[Intervention], *, with_loss: bool) -> list[Outcome]:
        """What each intervention changes of the answer against the baseline, in one run of them side by side."""
        count = len(interventions)
        is_first = not any((plan.mode, with_loss) == (other.mode, loss) for other, loss in self._beside)
        with_copy = is_first or (count >= _MANY and count > self._beside.get((plan, with_loss), 0))
        together = [*interventions, _UNTOUCHED] if with_copy else interventions
        groups = [together] if self.is_batchable else [[intervention] for intervention in together]
        outcomes = [outcome for group in groups for outcome in self._run(plan, group, with_loss)]
        if with_copy:
            self._add_copy(outcomes.pop(), plan, with_loss, count)
        return outcomes

    def outcomes_if_same(
        self, plan: RunPlan, interventions: Sequence[Intervention], *, with_loss: bool
    ) -> list[Outcome] | None:
        """What each intervention changes of the answer, as `outcomes` gives it, in a run beside an unchanged copy."""
        try:
            *outcomes, copy = self._run(plan, [*interventions, _UNTOUCHED], with_loss)
        except (*INPUT_ERRORS, LoadError) as error:
            if out_of_memory(error):
                raise MemoryError from error
            return None
        dtype = self._runner.model.dtype
        is_strict = plan.mode == "cache" and not self._runner.calls.past and dtype == torch.float32
        same = _SAME_FROM_MODELS_CACHE if is_strict else _SAME
        if max(abs(copy.effect), copy.kl_bits or 0.0) >= same:
            return None
        if interventions:
            self._add_copy(copy, plan, with_loss, len(interventions))
        else:  # alone it rounds otherwise than beside others
            self.noise_floor.add(copy)
        return outcomes

    def is_baseline(self, plan: RunPlan) -> bool:
        """True if a run without interventions gives the baseline's output to rounding; False if not, or it fails."""
        return self.outcomes_if_same(plan, [], with_loss=False) is not None

    def _add_copy(self, copy: Outcome, plan: RunPlan, with_loss: bool, count: int) -> None:
        self._beside[plan, with_loss] = count
        self.noise_floor.add(copy)

    def _run(self, plan: RunPlan, interventions: Sequence[Intervention], with_loss: bool) -> list[Outcome]:
        batch = self._asked.batch(interventions, plan.first)
        first = self._answers.first_row(with_loss=with_loss)
        output = self._runner.with_interventions(batch, plan.mode, plan.skip, first)
        return self._answers.outcomes(output, interventions, with_loss=with_loss, vector=self.vector)
