"""A model, a text, its baseline run, and runs with changes, in batches, each held against the baseline."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import exp, log
from typing import Any, NamedTuple

import torch
from torch.nn.functional import cosine_similarity, cross_entropy

from attn_cli.call import Look
from attn_cli.errors import InputError, LoadError
from attn_cli.model.intervention import AttentionLayer, Change, HeadPlace, Outcome, RunMode, Target
from attn_cli.prompt import Prompt, Token
from attn_cli.sources.huggingface.anatomy.configuration import number_of, text_configuration
from attn_cli.sources.huggingface.anatomy.forward_arguments import INPUT_ERRORS, out_of_memory
from attn_cli.sources.huggingface.intervene.batch import ChangeBatch, GatedRows
from attn_cli.sources.huggingface.intervene.runner import Runner
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.read.input_files import ArrayPrompt
from attn_cli.sources.huggingface.read.tokenize import detokenize

_ROWS = 32  # of one run, whose log-probabilities are computed together
_LIKELIEST = 5  # tokens that a story names


class LogProbs(NamedTuple):
    """Natural log-probabilities of S runs."""

    targets: torch.Tensor  # [S, targets]: of each token of the answer after those before it
    last: torch.Tensor  # [S, words]: of every word in the row whose distribution is compared
    text: torch.Tensor | None  # [S]: the mean of the text's own tokens


class Readout:
    """The answer of a baseline run, by an LM head or else by output vectors, and how other runs differ from it."""

    def __init__(
        self,
        loaded: LoadedModel,
        tokens: Sequence[Token],
        rows: Sequence[int],
        generated: Sequence[int],
        output: Any,
        *,
        with_loss: bool,
    ) -> None:
        self._n, self._model = len(tokens), str(loaded.about["model"])
        self.target: Target | None = None
        self.likeliest: tuple[tuple[Token, float], ...] = ()
        self.first = 0
        if loaded.generating is None:
            self._vectors = self._vectors_of(output)
            return
        ids = [token.id for token in tokens]
        self._rows = tuple(at - 1 for at in generated) or (rows[-1],)
        best = int(output["logits"][0, self._rows[-1] - self._n].argmax())  # of words alike the first
        self._ids = [ids[at] or 0 for at in generated] or [best]
        self._text = ids if len(rows) == self._n and None not in ids else []
        self.first = min(self._rows)
        self._log_p = self.read(output, with_loss=with_loss)
        log_p = self._log_p.last[0]
        best = int(log_p.argmax())
        others = [id for id in log_p.topk(min(_LIKELIEST, len(log_p))).indices.tolist() if id != best]
        before = [id for id in ids[: self._rows[-1] + 1] if id is not None]
        for id in [best, *others][:_LIKELIEST]:
            _, (token,) = detokenize(loaded.tokenizer, before, (id,), "")  # its text as it would follow
            self.likeliest += ((replace(token, generated=False), float(log_p[id].exp())),)
        answer = tuple(tokens[at] for at in generated) or (self.likeliest[0][0],)
        self.target = Target(answer, exp(float(self._log_p.targets.sum())), self._rows, bool(generated))

    def read(self, output: Any, *, with_loss: bool) -> LogProbs:
        """The log-probabilities of S runs, from their logits `[S, rows, words]` of the last rows of the text."""
        logits: torch.Tensor = output["logits"]
        first = self._n - logits.shape[1]
        targets = torch.empty((len(logits), len(self._ids)), dtype=torch.float64, device=logits.device)
        for at, run in enumerate(logits):
            for start in range(0, len(self._ids), _ROWS):
                some = slice(start, start + _ROWS)
                log_p = run[[row - first for row in self._rows[some]]].float().log_softmax(-1)  # [rows, words]
                targets[at, some] = log_p[range(len(log_p)), self._ids[some]].double()
        last = logits[:, self._rows[-1] - first].float().log_softmax(-1)
        text = None
        if with_loss and len(self._text) > 1:
            ids = torch.tensor(self._text[1:], device=logits.device)
            losses = [cross_entropy(run[:-1].float(), ids, reduction="none") for run in logits]
            text = torch.stack([-loss.double().mean() for loss in losses])
        return LogProbs(targets, last, text)

    def outcomes(self, output: Any, changes: Sequence[Change], *, with_loss: bool) -> list[Outcome]:
        """What each change does against the baseline: log2 p of the answer, less that without it."""
        if self.target is None:
            return self._outcomes_of_vectors(self._vectors_of(output), changes)
        before, changed = self._log_p, self.read(output, with_loss=with_loss)
        bits = ((changed.targets - before.targets) / log(2)).sum(-1)
        kl = (before.last.exp() * (before.last - changed.last)).sum(-1).clamp(min=0) / log(2)
        losses: Sequence[float | None] = [None] * len(changes)
        if before.text is not None and changed.text is not None:
            losses = ((before.text - changed.text) / log(2)).tolist()
        return [Outcome(*numbers) for numbers in zip(bits.tolist(), kl.tolist(), losses, strict=True)]

    def _outcomes_of_vectors(self, changed: torch.Tensor, changes: Sequence[Change]) -> list[Outcome]:
        """1 - cosine of a changed run's mean vector and the baseline's, from outputs `[S, n, d]` and `[1, n, d]`."""
        n, before = self._vectors.shape[1], self._vectors[0].double().mean(0)
        outcomes = []
        for vectors, change in zip(changed, changes, strict=True):
            rest = [row for row in range(n) if row not in set(change.hidden)]
            if not rest:
                raise InputError("all tokens are hidden", "leave one of them")
            cosine = cosine_similarity(before, vectors[rest].double().mean(0), dim=0)
            outcomes.append(Outcome(cosine_distance=1 - float(cosine)))
        return outcomes

    def _vectors_of(self, output: Any) -> torch.Tensor:
        vectors = output.get("last_hidden_state") if hasattr(output, "get") else None
        if not isinstance(vectors, torch.Tensor) or vectors.ndim != 3:
            told = f"{self._model} returns neither logits nor a vector per token"
            raise InputError(told, "attn top shows what it attends to")
        return vectors


_FEWEST_ROWS = 16  # of which a mean of heads is taken: one row then holds a sixteenth of it
_MANY_ROWS = 48  # from which on the rows of one variant keep a matrix product busy
_MOST = 64  # changes at once
_MOST_ROWS = 512  # of all of them
_BYTES = 1 << 29  # the most that the logits of one batch take
_MANY = 8  # changes beside which an untouched copy costs little
_SAME = 1e-3  # bits by which an untouched copy may differ where rounding in low precision is all that differs
_SAME_FROM_MODELS_CACHE = 1e-4  # the same in float32 from a model's own cache, which may round more than its pass


class RunPlan(NamedTuple):
    """How a run computes: its mode, the first row that runs, and how many calls of blocks are left out before."""

    mode: RunMode
    first: int
    skip: int


class ModelExperiment:
    """Runs of one model over one text with changes (heads ablated, tokens hidden), as `model.intervention` says."""

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
        self.tokens: Sequence[Token] = prompt.others.get("decoder", prompt.tokens)
        self._in_text, n = len(prompt.tokens), len(self.tokens)
        self._everywhere = everywhere or loaded.generating is None
        generated = [token.index for token in self.tokens if token.generated and token.index > 0]
        choosing = tuple(at - 1 for at in generated) or (n - 1,)
        if rows is not None and (not rows or min(rows) < 0 or max(rows) >= n) and not self._everywhere:
            raise InputError(f"rows {list(rows)} of a text of {n} tokens", f"there are rows 0 to {n - 1}")
        if mean and n < _FEWEST_ROWS:
            raise InputError(
                f"mean ablation over {n} rows would mostly return the head's own output",
                f"--mean needs a text of {_FEWEST_ROWS} tokens or more",
            )
        self.rows = tuple(range(n)) if self._everywhere else choosing if rows is None else tuple(sorted({*rows}))
        self._first = min(*self.rows, *choosing) if generated else self.rows[0]
        first = self._first if earliest is None else min(earliest, self._first)
        self._runner = Runner(loaded, arguments, n, first, wants_means=mean)
        # the loss of the text needs the logits of all rows
        every = loaded.generating is None or len(self.rows) == n
        answers = 0 if every else choosing[0] if generated else self.rows[-1]
        output, self.visited = self._runner.baseline(answers, prompt, look)
        self._readout = Readout(loaded, self.tokens, self.rows, generated, output, with_loss=every)
        self.target, self.likeliest = self._readout.target, self._readout.likeliest
        layers = self._runner.calls.layers.values()
        self.layers: Sequence[AttentionLayer] = tuple({(at.layer, at.stream): at for at in layers}.values())
        self.noise = 0.0
        self._is_batchable = not isinstance(prompt, ArrayPrompt)
        self._beside: dict[tuple[RunPlan, bool], int] = {}  # most changes beside an untouched copy, by plan and loss

    @cached_property
    def run_mode(self) -> RunMode:
        """How runs compute rows: "cache", the last rows alone over kept keys and values, "prefix" or "whole"."""
        return self._without_cache if self.no_cache_reason else "cache"

    @cached_property
    def no_cache_reason(self) -> str:
        """Why runs can't go on from the baseline's keys and values; "" where they can, as a trial tells."""
        runner, trial = self._runner, RunPlan("cache", self._runner.first, 0)
        if not self._is_batchable or not runner.first:
            return "all rows run" if self._is_batchable else "inputs other than text run one by one"
        if runner.calls.past and self._is_baseline(trial):
            return ""
        runner.calls.forget_past()
        if runner.has_cache and self._is_baseline(trial, Change(hidden=(0,))):  # its windows may lack keys to hide
            return ""
        return runner.calls.no_cache_reason or "running the last rows from the KV cache doesn't reproduce the full pass"

    def outcomes(
        self, changes: Sequence[Change], *, with_loss: bool = False, from_cache: bool = False
    ) -> Iterator[Outcome]:
        """What each change does against the baseline, in their order; `from_cache` ends where one needs whole runs."""
        done = 0
        while done < len(changes):
            plan, batch = self._first_batch(changes[done:], with_loss)
            if from_cache and plan.mode != "cache":
                return
            is_first = not any((plan.mode, with_loss) == (other.mode, loss) for other, loss in self._beside)
            beside_copy = is_first or (len(batch) >= _MANY and len(batch) > self._beside.get((plan, with_loss), 0))
            outcomes = self._run(plan, [*batch, Change()] if beside_copy else batch, with_loss)
            if beside_copy:
                self._beside[plan, with_loss] = len(batch)
                self.noise = max(self.noise, abs(outcomes.pop().effect))
            yield from outcomes
            done += len(outcomes)

    def estimated_effects(self) -> dict[HeadPlace, float]:
        """For every head the change of the answer's log2 p by ablating it, in bits, to first order."""
        batch = GatedRows(self._in_text, self._runner.first)
        if self.target is None or not self._is_batchable or not self._runner.calls.past:
            return {}
        try:
            output = self._runner.with_changes(batch, 0, self._readout.first)
            log_p = self._readout.read(output, with_loss=False).targets.sum()
            slopes = torch.autograd.grad(log_p, list(batch.gates.values()))
        except (*INPUT_ERRORS, LoadError) as error:
            if out_of_memory(error):
                raise MemoryError from error
            return {}
        return {
            HeadPlace(layer, head, stream): -slope / log(2)
            for (layer, stream), of_layer in zip(batch.gates, slopes, strict=True)
            for head, slope in enumerate(of_layer.flatten().tolist())
        }

    def _batch(self, changes: Sequence[Change], first: int) -> ChangeBatch:
        # all rows of a decoder are not all of its encoder's
        return ChangeBatch(changes, None if self._everywhere else self.rows, self._in_text, first)

    def _plan(self, change: Change) -> RunPlan:
        """How a run with this change alone computes, the cheapest way that is right."""
        calls, first = self._runner.calls, self._first if change.rows is None else min(self._first, *change.rows)
        if not self.no_cache_reason and first >= self._runner.first and calls.is_causal_before(first):
            if not calls.past:  # the model's own cache is of the rows before one row alone
                return RunPlan("cache", self._runner.first, 0)
            skip = self._runner.skippable(self._batch([change], first))
            return RunPlan("cache", first, skip if skip and self._skips_with_cache else 0)
        skip = self._runner.skippable(self._batch([change], 0))
        return RunPlan("prefix", 0, skip) if skip and self._without_cache == "prefix" else RunPlan("whole", 0, 0)

    @cached_property
    def _without_cache(self) -> RunMode:
        return "prefix" if self._is_batchable and self._can_skip("prefix", 0) else "whole"

    @cached_property
    def _skips_with_cache(self) -> bool:
        return self._can_skip("cache", self._runner.first)

    def _can_skip(self, mode: RunMode, first: int) -> bool:
        blocks = self._runner.blocks
        return blocks > 1 and all(self._is_baseline(RunPlan(mode, first, x)) for x in sorted({blocks // 2, blocks - 1}))

    def _is_baseline(self, plan: RunPlan, *beside: Change) -> bool:
        """True if an untouched copy is the baseline, to within rounding; False if its run fails."""
        try:
            copy, *_ = self._run(plan, [Change(), *beside], with_loss=False)
        except (*INPUT_ERRORS, LoadError) as error:
            if out_of_memory(error):
                raise MemoryError from error
            return False
        is_strict = plan.mode == "cache" and not self._runner.calls.past and self._runner.model.dtype == torch.float32
        same = _SAME_FROM_MODELS_CACHE if is_strict else _SAME
        is_same = max(abs(copy.effect), copy.kl_bits or 0.0) < same
        self.noise = max(self.noise, abs(copy.effect)) if is_same else self.noise
        return is_same

    def _run(self, plan: RunPlan, changes: Sequence[Change], with_loss: bool) -> list[Outcome]:
        outcomes: list[Outcome] = []
        first = 0 if with_loss else self._readout.first
        for some in [changes] if self._is_batchable else [[change] for change in changes]:
            output = self._runner.with_changes(self._batch(some, plan.first), plan.skip, first)
            outcomes += self._readout.outcomes(output, some, with_loss=with_loss)
        return outcomes

    def _first_batch(self, changes: Sequence[Change], with_loss: bool) -> tuple[RunPlan, Sequence[Change]]:
        plan, count = self._plan(changes[0]), 1
        while count < len(changes) and self._fits(plan, self._plan(changes[count]), count, with_loss):
            count += 1
        return plan, changes[:count]

    def _fits(self, plan: RunPlan, own: RunPlan, count: int, with_loss: bool) -> bool:
        """Whether one more change, with a plan of its own, goes into a batch of `count`."""
        if own.mode != plan.mode or own.skip < plan.skip or own.first < plan.first:
            return False
        running = len(self.tokens) - plan.first
        if count * running >= _MANY_ROWS and (own.skip > plan.skip or own.first > plan.first):
            return False
        # logits must fit, and rows stay in the processor's cache
        words = (number_of(text_configuration(self._runner.model.config), "vocab_size") or 1) if self.target else 1
        answered = len(self.tokens) - max(plan.first, 0 if with_loss else self._readout.first)
        most = min(_MOST, _BYTES // (4 * answered * words) - 1, _MOST_ROWS // running)
        if plan.mode == "cache":
            most = min(most, _BYTES // max(self._runner.bytes_of_variant, 1))
        return count < max(1, most)
