"""A model, a text, and runs that differ from the plain one in what their attention lacks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any

import torch

from attn_cli.errors import InputError
from attn_cli.intervention import AttentionLayer, Floor, Intervention, Outcome, Target
from attn_cli.prompt import Prompt, Token
from attn_cli.sources.huggingface.generate.detokenize import detokenize
from attn_cli.sources.huggingface.intervene.answers import (
    Asked,
    Said,
    outcomes_of_vectors,
    outcomes_of_words,
    said,
    vectors_of,
)
from attn_cli.sources.huggingface.intervene.batch import InterventionBatch
from attn_cli.sources.huggingface.intervene.plain_calls import PlainCalls
from attn_cli.sources.huggingface.intervene.running import intervening
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.read.input_files import ArrayPrompt

_UNTOUCHED = Intervention()
_FEWEST_ROWS = 16  # of which a mean of heads is taken: one row then holds a sixteenth of it
_BYTES = 1 << 29  # the most that the logits of one batch take


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
    ) -> None:
        """Run the model once, plainly.

        arguments  of the model's forward for this prompt
        others     as for `attn_cli.summaries.predicting.Predicting`
        """
        self.loaded, self.prompt, self.arguments = loaded, prompt, {"use_cache": False, **arguments}
        self.model = loaded.generating or loaded.model
        if "use_cache" not in signature(self.model.forward).parameters:
            self.arguments.pop("use_cache")
        self.tokens: tuple[Token, ...] = prompt.others.get("decoder", prompt.tokens)
        self.speaks = loaded.generating is not None
        self.rows = self._rows(rows, everywhere or not self.speaks)
        if mean and len(self.tokens) < _FEWEST_ROWS:
            raise InputError(
                f"a mean over {len(self.tokens)} rows would be much of what it replaces",
                f"--mean needs a text of {_FEWEST_ROWS} tokens or more",
            )
        self.floor = Floor()
        self.way, self.why = "whole", "whole passes are all there is"
        self._plain_calls = PlainCalls(wants_means=mean)
        with intervening(self.model, loaded.model, self._plain_calls, None), torch.no_grad():
            output = self.model(**self.arguments)
        self.layers: tuple[AttentionLayer, ...] = tuple(self._plain_calls.layers.values())
        self.target: Target | None = None
        if self.speaks:
            self._asked = self._choose(output["logits"])
            self._plain: Said | torch.Tensor = said(output["logits"], self._asked, 0)
            probability = float(self._plain.target.exp())
            self.target = replace(self._target_tokens(), probability=probability)
        else:
            self._plain = vectors_of(output, str(loaded.about["model"]))

    def outcomes(self, interventions: Sequence[Intervention]) -> Iterator[Outcome]:
        """As for `Experiment`."""
        most = self._batch_size()
        for start in range(0, len(interventions), most):
            yield from self._outcomes_of_batch(interventions[start : start + most])

    def passes(self, interventions: Sequence[Intervention]) -> float:
        """As for `Experiment`."""
        return len(interventions) + -(-len(interventions) // self._batch_size())

    def _outcomes_of_batch(self, interventions: Sequence[Intervention]) -> list[Outcome]:
        """One run of these interventions and of an untouched copy, side by side."""
        together = [*interventions, _UNTOUCHED]
        groups = [together] if self._is_widened() else [[intervention] for intervention in together]
        outcomes = [outcome for group in groups for outcome in self._run(group)]
        self.floor.add(outcomes.pop())
        return outcomes

    def _run(self, interventions: Sequence[Intervention]) -> list[Outcome]:
        rows = None if len(self.rows) == len(self.tokens) else self.rows
        batch = InterventionBatch(interventions, rows, len(self.prompt.tokens))
        arguments = {name: _widened(x, batch.size) for name, x in self.arguments.items()}
        first = 0
        if self.speaks and self._asked.text is None and "logits_to_keep" in signature(self.model.forward).parameters:
            first = min(*self._asked.rows, self._asked.last)
            arguments["logits_to_keep"] = len(self.tokens) - first
        with intervening(self.model, self.loaded.model, self._plain_calls, batch), torch.no_grad():
            output = self.model(**arguments)
        if isinstance(self._plain, Said):
            return outcomes_of_words(self._plain, said(output["logits"], self._asked, first))
        vectors = vectors_of(output, str(self.loaded.about["model"]))
        return outcomes_of_vectors(self._plain, vectors, interventions)

    def _rows(self, rows: Sequence[int] | None, everywhere: bool) -> tuple[int, ...]:
        """The rows in which interventions hold."""
        n = len(self.tokens)
        if everywhere:
            return tuple(range(n))
        if rows is None:
            return self._choosing_rows()
        if not rows or min(rows) < 0 or max(rows) >= n:
            raise InputError(f"rows {list(rows)} of a text of {n} tokens", f"there are rows 0 to {n - 1}")
        return tuple(sorted(set(rows)))

    def _generated(self) -> list[int]:
        return [token.index for token in self.tokens if token.generated and token.index > 0]

    def _choosing_rows(self) -> tuple[int, ...]:
        """The rows that choose: of what was generated, else the last one."""
        return tuple(index - 1 for index in self._generated()) or (len(self.tokens) - 1,)

    def _choose(self, logits: torch.Tensor) -> Asked:
        """What is read off the runs, now that the plain run's logits `[1, n, words]` are known."""
        everywhere = len(self.rows) == len(self.tokens)
        ids = [token.id for token in self.tokens]
        text = tuple(id for id in ids if id is not None) if everywhere and None not in ids else None
        generated = self._generated()
        if generated:
            rows = self._choosing_rows()
            return Asked(tuple(int(ids[index] or 0) for index in generated), rows, rows[-1], text)
        last = self.rows[-1]
        return Asked((int(logits[0, last].argmax()),), (last,), last, text)

    def _target_tokens(self) -> Target:
        generated = self._generated()
        if generated:
            return Target(tuple(self.tokens[index] for index in generated), 0.0, self._asked.rows, True)
        before = [token.id for token in self.tokens[: self._asked.last + 1] if token.id is not None]
        _, tokens = detokenize(self.loaded.tokenizer, before, self._asked.ids, "")
        (token,) = tokens
        return Target((replace(token, generated=False),), 0.0, self._asked.rows, False)

    def _is_widened(self) -> bool:
        """Whether several runs can be the elements of one batch: not those of images and the like, whose arrays are of
        any shape."""
        return not isinstance(self.prompt, ArrayPrompt)

    def _batch_size(self) -> int:
        """How many interventions run at once, so that their logits fit."""
        words = int(getattr(self.model.config.get_text_config(), "vocab_size", 1) or 1) if self.speaks else 1
        rows = len(self.tokens)
        heads = max((len(layer.groups) for layer in self.layers), default=1)
        return max(1, min(heads, _BYTES // (4 * rows * words) - 1))


def _widened(x: Any, size: int) -> Any:
    """An argument of one text for `size` copies of it."""
    return x.expand(size, *x.shape[1:]) if isinstance(x, torch.Tensor) and x.ndim and x.shape[0] == 1 else x
