"""A model, a text, its baseline run, and runs with interventions: in batches, each by the cheapest mode that is right.

`asked_rows.py` says which rows are changed and which are read, `baseline_answers.py` what is read of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import Any, Literal

import torch

from attn_cli.call import Look
from attn_cli.errors import InputError, LoadError
from attn_cli.model.intervention import (
    AttentionLayer,
    HeadPlace,
    Intervention,
    NoiseFloor,
    Outcome,
    RunMode,
    Slopes,
    Target,
)
from attn_cli.model.kv_cache import CacheChange
from attn_cli.prompt import Prompt, Token
from attn_cli.sources.huggingface.anatomy.configuration import number_of, text_configuration
from attn_cli.sources.huggingface.anatomy.forward_arguments import INPUT_ERRORS, out_of_memory
from attn_cli.sources.huggingface.intervene.asked_rows import AskedRows
from attn_cli.sources.huggingface.intervene.attention import MANY_ROWS
from attn_cli.sources.huggingface.intervene.baseline_answers import BaselineAnswers
from attn_cli.sources.huggingface.intervene.batch import InterventionBatch
from attn_cli.sources.huggingface.intervene.differentiated import DifferentiatedRows, GatedRows, PartlyWindowed
from attn_cli.sources.huggingface.intervene.runner import Runner
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.read.input_files import ArrayPrompt

_UNTOUCHED = Intervention()
_MANY = 8  # interventions beside which an untouched copy costs little
_FEWEST_ROWS = 16  # of which a mean of heads is taken: one row then holds a sixteenth of it
_MOST = 64  # interventions at once
_MOST_ROWS = 512  # of all of them
_BYTES = 1 << 29  # the most that the logits of one batch take
_NUMBERS_OF_BLOCK = 16  # for each of its vector's numbers, about, that a block holds until derivatives are taken
_SAME = 1e-3  # bits by which an untouched copy may differ where rounding in low precision is all that differs
_SAME_FROM_MODELS_CACHE = 1e-4  # the same in float32 from a model's own cache, which may round more than its pass


@dataclass(frozen=True)
class _Batch:
    """Interventions that run side by side in one mode, from row `first` on, with `skip` blocks left out."""

    mode: RunMode
    first: int
    skip: int
    interventions: list[Intervention]


class ModelExperiment:
    """Interventions in one model's run over one text; the public fields are those of `Experiment`."""

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
        """Run the baseline.

        arguments  of the model's forward for this prompt; all others are as for `Predicting.experiment`
        """
        self.loaded, self.prompt = loaded, prompt
        self.tokens: tuple[Token, ...] = prompt.others.get("decoder", prompt.tokens)
        self.has_lm_head = loaded.generating is not None
        self._everywhere = everywhere or not self.has_lm_head
        self._asked = AskedRows(loaded, self.tokens, rows, everywhere=self._everywhere)
        self.rows = self._asked.rows
        if mean and len(self.tokens) < _FEWEST_ROWS:
            raise InputError(
                f"mean ablation over {len(self.tokens)} rows would mostly return the head's own output",
                f"--mean needs a text of {_FEWEST_ROWS} tokens or more",
            )
        self.noise_floor = NoiseFloor()
        self.vector: Literal["mean", "first"] = "mean"
        # most variants beside a copy, by mode, loss, place
        self._measured: dict[tuple[RunMode, bool, int, int], int] = {}
        self._first = min(*self.rows, *self._asked.choosing) if self._asked.generated else self.rows[0]
        first = self._first if earliest is None else min(earliest, self._first)
        self._runner = Runner(loaded, arguments, len(self.tokens), first, wants_means=mean)
        # the loss of the text needs the logits of all rows
        every = not self.has_lm_head or len(self.rows) == len(self.tokens)
        chooses = self._asked.choosing[0] if self._asked.generated else self.rows[-1]
        output = self._runner.baseline(0 if every else chooses, prompt, look)
        self._answers = BaselineAnswers(self._runner, self._asked, output, with_loss=every)
        self.target: Target | None = self._answers.target
        self.visited = self._runner.visited
        self.layers: tuple[AttentionLayer, ...] = tuple(self._runner.calls.layers.values())
        self._no_cache_reason = self._known_obstacle()
        self._cache_holds: bool | None = None  # whether the last rows alone reproduce the baseline, once tried

    # Variants in batches

    def outcomes(self, interventions: Sequence[Intervention], *, with_loss: bool = False) -> Iterator[Outcome]:
        """The outcome of each intervention, in their order; with `with_loss` also the loss of the text."""
        done = 0
        while done < len(interventions):
            outcomes = self._outcomes_of_batch(next(self._batches(interventions[done:], with_loss)), with_loss)
            yield from outcomes
            done += len(outcomes)

    def outcomes_from_cache(self, interventions: Sequence[Intervention]) -> list[Outcome] | None:
        """One outcome for each intervention from its last rows alone, as `Experiment` says; None where one can't."""
        outcomes: list[Outcome] = []
        while len(outcomes) < len(interventions):
            batch = next(self._batches(interventions[len(outcomes) :], with_loss=False))
            if batch.mode != "cache":
                return None
            outcomes += self._outcomes_of_batch(batch, with_loss=False)
        return outcomes

    def estimated_effects(self) -> dict[HeadPlace, float]:
        """For every head the change of the answer's log2 p by ablation, in bits, to first order; empty without."""
        batch = GatedRows(len(self.prompt.tokens), first=self._runner.first)
        derived = self._derived(batch)
        if derived is None:
            return {}
        return {
            HeadPlace(layer, head, stream): -slope / log(2)
            for (layer, stream), of_layer in zip(batch.gates, derived[1], strict=True)
            for head, slope in enumerate(of_layer)
        }

    def slopes(self, windows: Sequence[CacheChange], shares: Sequence[float]) -> Slopes | None:
        """The answer's log2 p with each window mixed in by its share, and derivatives, as `Slopes`; None if unknown."""
        rows = None if self._everywhere else self.rows
        batch = PartlyWindowed(windows, shares, rows, len(self.prompt.tokens), first=self._runner.first)
        held = self._rows_that_run(self._runner.first) * self._runner.blocks * _NUMBERS_OF_BLOCK
        width = number_of(text_configuration(self._runner.model.config), "hidden_size") or 0
        derived = self._derived(batch) if 4 * held * width <= _BYTES and self.run_mode == "cache" else None
        if derived is None or self.target is None:
            return None
        return Slopes(derived[0] / log(2) + self.target.bits, tuple(slope / log(2) for slope in derived[1][0]))

    def _derived(self, batch: DifferentiatedRows) -> tuple[float, list[list[float]]] | None:
        """Log p of the target in these rows, and its derivatives by each variable; None where there are none."""
        can_run = not self._no_cache_reason and self._runner.calls.past
        return self._answers.derivatives(batch) if can_run else None

    def likeliest(self, count: int) -> tuple[tuple[Token, float], ...]:
        """The likeliest tokens after the last row that chooses, with their probabilities; none without an LM head."""
        return self._answers.likeliest(count)

    def passes(self, interventions: Sequence[Intervention]) -> float:
        """About what running these interventions costs, as a multiple of one pass over the whole text."""
        passes = 0.0
        for batch in self._batches(interventions, with_loss=False):
            share = 1 - batch.skip / max(self._runner.blocks, 1)
            passes += len(batch.interventions) * share * self._rows_that_run(batch.first) / len(self.tokens)
        return passes

    def _batches(self, interventions: Sequence[Intervention], with_loss: bool) -> Iterator[_Batch]:
        """Neighbours that run side by side: of the same first block and row, or of so few rows that products idle."""
        batch: _Batch | None = None
        for intervention in interventions:
            own = self._alone(intervention)
            if batch is not None and self._fits(batch, own, with_loss):
                batch.interventions.append(intervention)
                continue
            if batch is not None:
                yield batch
            batch = own
        if batch is not None:
            yield batch

    def _alone(self, intervention: Intervention) -> _Batch:
        """The batch of a single intervention."""
        mode = self.run_mode_of([intervention])
        first = 0
        if mode == "cache":  # the model's own is of the rows before one row alone
            first = self._first_of(intervention) if self._runner.calls.past else self._runner.first
        return _Batch(mode, first, self._skip(mode, first, [intervention]), [intervention])

    def _fits(self, batch: _Batch, own: _Batch, with_loss: bool) -> bool:
        """True if an intervention that runs like `own` can run beside those of the batch."""
        count = len(batch.interventions)
        if own.mode != batch.mode or own.skip < batch.skip or own.first < batch.first:
            return False
        is_busy = count * self._rows_that_run(batch.first) >= MANY_ROWS
        if is_busy and (own.skip > batch.skip or own.first > batch.first):
            return False
        return count < self._most(batch, with_loss)

    def _most(self, batch: _Batch, with_loss: bool) -> int:
        """The most interventions of a batch, so that their logits fit and their rows stay in the processor's cache."""
        words = (number_of(text_configuration(self._runner.model.config), "vocab_size") or 1) if self.has_lm_head else 1
        spoken = len(self.tokens) - max(batch.first, self._answers.first_row(with_loss=with_loss))
        most = min(_MOST, _BYTES // (4 * spoken * words) - 1, _MOST_ROWS // self._rows_that_run(batch.first))
        if batch.mode == "cache" and self._cache_holds:
            most = min(most, _BYTES // max(self._runner.bytes_of_variant, 1))
        return max(1, most)

    def _first_of(self, intervention: Intervention) -> int:
        """The first row that an intervention changes, or that the answer is read from."""
        return self._first if intervention.rows is None else min(self._first, *intervention.rows)

    def _rows_that_run(self, first: int) -> int:
        return len(self.tokens) - first

    def _skip(self, mode: RunMode, first: int, interventions: Sequence[Intervention]) -> int:
        """The number of blocks before the first that these interventions change."""
        if mode == "whole" or (mode == "cache" and not self._runner.calls.past):
            return 0
        blocks = self._runner.skippable(self._batch(first, interventions))
        return blocks if mode == "prefix" or (blocks and self._skips_with_cache) else 0

    def _batch(self, first: int, interventions: Sequence[Intervention]) -> InterventionBatch:
        rows = None if self._everywhere else self.rows  # all rows of a decoder are not all of its encoder's
        return InterventionBatch(interventions, rows, len(self.prompt.tokens), first=first)

    # The mode of their runs

    @property
    def run_mode(self) -> RunMode:
        """How runs compute rows, "cache", "prefix" or "whole"; a copy without interventions runs first, if none did."""
        return self._mode_without_cache if self.no_cache_reason else "cache"

    @property
    def no_cache_reason(self) -> str:
        """The reason why runs can't go on from the baseline's keys and values; "" where they can."""
        while not self._no_cache_reason and self._cache_holds is None:
            # with nothing skipped every block has to do with these rows alone
            self._note_cache(self._is_same("cache", 0))
        return self._no_cache_reason

    def run_mode_of(self, interventions: Sequence[Intervention]) -> RunMode:
        """How runs with these interventions compute rows, "cache", "prefix" or "whole", as `RunMode` says."""
        calls, first_run = self._runner.calls, self._runner.first
        firsts = {self._first_of(intervention) for intervention in interventions}
        if not self._no_cache_reason and all(x >= first_run and calls.is_causal_before(x) for x in firsts):
            return "cache"
        return self._mode_without_cache if self._runner.skippable(self._batch(0, interventions)) else "whole"

    def _known_obstacle(self) -> str:
        """Why the last rows can't run alone, as far as is known without trying; "" where they may."""
        if not self._is_batchable():
            return "inputs other than text run one by one"
        if not self._runner.first:
            return "all rows run"
        return "" if self._runner.has_cache else self._runner.calls.no_cache_reason

    def _is_batchable(self) -> bool:
        """True if several runs can be the elements of one batch: not those of images, whose arrays have any shape."""
        return not isinstance(self.prompt, ArrayPrompt)

    @property
    def _some_skips(self) -> list[int]:
        """The number of blocks that an untouched copy skips, to see whether blocks can be skipped."""
        return sorted({self._runner.blocks // 2, max(self._runner.blocks - 1, 0)})

    @cached_property
    def _mode_without_cache(self) -> RunMode:
        """The cheaper of the other modes in which an untouched copy is the baseline."""
        skips = self._is_batchable() and self._runner.blocks > 1
        return "prefix" if skips and all(self._is_same("prefix", x) for x in self._some_skips) else "whole"

    @cached_property
    def _skips_with_cache(self) -> bool:
        """True if blocks can be skipped by rows that run alone."""
        return self._mode_without_cache == "prefix" and all(self._is_same("cache", x) for x in self._some_skips)

    def _note_cache(self, holds: bool) -> None:
        """Note whether an untouched copy from the cache was the baseline; if not, the model's own cache is next."""
        calls = self._runner.calls
        if not holds and calls.past and self._runner.has_cache:
            calls.forget_past()
            return
        self._cache_holds = holds
        if not holds:
            again = "running the last rows from the KV cache doesn't reproduce the full pass"
            self._no_cache_reason = calls.no_cache_reason or again

    def _is_same(self, mode: RunMode, skip: int) -> bool:
        """True if an untouched copy gives the baseline's output in this mode; False where it fails."""
        return self._with_copy(mode, self._runner.first if mode == "cache" else 0, skip, [], False) is not None

    # Their effects, and the noise floor

    def _outcomes_of_batch(self, batch: _Batch, with_loss: bool) -> list[Outcome]:
        """One run of these interventions side by side.

        A mode's first batch has an untouched copy, and so have large ones of another row or block, or larger ones.

        Empty where the first run from the cache shows that the cache doesn't hold: another mode is next.
        """
        if batch.mode == "cache" and self._cache_holds is None:
            is_whole = not batch.skip and batch.first == self._runner.first
            tried = self._with_copy("cache", self._runner.first, 0, batch.interventions if is_whole else [], with_loss)
            self._note_cache(tried is not None)
            return tried or []
        count, place = len(batch.interventions), (batch.mode, with_loss, batch.first, batch.skip)
        is_first = not any(measured[:2] == place[:2] for measured in self._measured)
        with_copy = is_first or (count >= _MANY and count > self._measured.get(place, 0))
        together = [*batch.interventions, _UNTOUCHED] if with_copy else batch.interventions
        groups = [together] if self._is_batchable() else [[intervention] for intervention in together]
        mode, first, skip = batch.mode, batch.first, batch.skip
        outcomes = [outcome for group in groups for outcome in self._run(mode, first, skip, group, with_loss)]
        if with_copy:
            self._add_copy(outcomes.pop(), place, count)
        return outcomes

    def _with_copy(
        self, mode: RunMode, first: int, skip: int, interventions: Sequence[Intervention], with_loss: bool
    ) -> list[Outcome] | None:
        """The outcomes of a run beside an untouched copy; None where it fails or the copy isn't the baseline."""
        try:
            *outcomes, copy = self._run(mode, first, skip, [*interventions, _UNTOUCHED], with_loss)
        except (*INPUT_ERRORS, LoadError) as error:
            if out_of_memory(error):
                raise MemoryError from error
            return None
        is_strict = mode == "cache" and not self._runner.calls.past and self.loaded.model.dtype == torch.float32
        same = _SAME_FROM_MODELS_CACHE if is_strict else _SAME
        if max(abs(copy.effect), copy.kl_bits or 0.0) >= same:
            return None
        if interventions:
            self._add_copy(copy, (mode, with_loss, first, skip), len(interventions))
        else:  # alone it rounds otherwise than beside others
            self.noise_floor.add(copy)
        return outcomes

    def _add_copy(self, copy: Outcome, place: tuple[RunMode, bool, int, int], count: int) -> None:
        """Add the effect of an untouched copy that ran beside so many interventions to the noise floor."""
        self._measured[place] = count
        self.noise_floor.add(copy)

    def _run(
        self, mode: RunMode, first: int, skip: int, interventions: Sequence[Intervention], with_loss: bool
    ) -> list[Outcome]:
        batch = self._batch(first, interventions)
        output = self._runner.with_interventions(batch, mode, skip, self._answers.first_row(with_loss=with_loss))
        return self._answers.outcomes(output, interventions, with_loss=with_loss, vector=self.vector)
