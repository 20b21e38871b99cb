"""Texts in one padded batch, and a text read in steps with a cache: seen as each text alone, and as all at once."""

import inspect
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel
from transformers.modeling_outputs import MoEModelOutput

from attn_cli.call import Call
from attn_cli.errors import AttnError
from attn_cli.prompt import Token
from attn_cli.sources.huggingface.capture.session import capture
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.matrix import Matrix, MatrixOf
from tests.architectures.inputs import DECODER_TOKENS, TOKENS, Inputs
from tests.architectures.outputs import difference, furthest, numbers, run

LONG, SHORT = 12, 8
# float32 in matrices of other sizes, on scores of size 10
TOLERANCE = 1e-4

# (text, module, call): weights [h, n, m]
Weights = dict[tuple[int, str, int], np.ndarray]


@dataclass
class Moved:
    """The difference of weights from those of each text alone, or of all tokens at once.

    weights  the largest difference of a weight
    model    the same of the model's own eager outputs, relative to the largest of them
    watched  the largest difference of the outputs with capture on and off, on the same inputs
    """

    weights: float
    model: float
    watched: float

    def __str__(self) -> str:
        if self.weights <= TOLERANCE:
            return f"{self.weights:.0e}" if self.weights else "0"
        if self.watched <= TOLERANCE < self.model:
            return f"model's own {self.model:.0e}"
        return f"differs {self.weights:.0e}"


def text_inputs(model: PreTrainedModel, inputs: Inputs) -> Inputs | None:
    """Inputs of text alone for a model that runs on them; None for one that reads something else, or needs more."""
    if not isinstance(inputs.get("input_ids"), torch.Tensor):
        return None
    if inputs["input_ids"].shape == TOKENS.shape and all(_is_of_text(name, x) for name, x in inputs.items()):
        return inputs
    alone = {"input_ids": TOKENS, "attention_mask": torch.ones_like(TOKENS)}
    alone |= {name: x for name, x in inputs.items() if name.startswith("decoder_")}
    if "decoder_input_ids" in inspect.signature(model.forward).parameters:
        alone.setdefault("decoder_input_ids", DECODER_TOKENS)
    try:
        with torch.no_grad():
            deepcopy(model)(**alone)
    except Exception:  # models raise anything
        return None
    return alone


def padded(model: PreTrainedModel, inputs: Inputs, side: str) -> str:
    """The difference that padding on that side makes to the weights of a text of 12 tokens, and of its first 8."""
    parameters = inspect.signature(model.forward).parameters
    if "attention_mask" not in parameters:
        return "no mask"
    batch = _batch(inputs, side)
    counted = {"position_ids": (batch["attention_mask"].cumsum(-1) - 1).clamp(min=0)}
    # Padded on the left, some count positions themselves and others are given them, as `generate` does.
    ways = [batch | counted, batch] if side == "left" and "position_ids" in parameters else [batch]
    return str(min((moved_by_padding(model, inputs, way, side) for way in ways), key=lambda moved: moved.weights))


def moved_by_padding(model: PreTrainedModel, inputs: Inputs, batch: Inputs, side: str) -> Moved:
    """The difference of weights of both texts of `batch` from those of `inputs` alone, and of its first 8 tokens."""
    together, output = weights_and_output(deepcopy(model), batch, tokens=(LONG, SHORT))
    plain = run(deepcopy(model), batch)
    moved = Moved(0.0, 0.0, 0.0)
    for text, length in enumerate((LONG, SHORT)):
        part = _cut(inputs, length)
        alone, _ = weights_and_output(deepcopy(model), part, tokens=(length,))
        of_batch = {(0, module, call): x for (number, module, call), x in together.items() if number == text}
        moved.weights = max(moved.weights, _between(of_batch, alone, side))
        real = slice(LONG - length, LONG) if side == "left" else slice(0, length)
        of_text, expected = list(_of(plain, text, real)), list(_of(run(deepcopy(model), part), 0, slice(None)))
        moved.model = max([moved.model, *map(_apart, expected, of_text)])
        moved.watched = max([moved.watched, *map(_apart, of_text, _of(output, text, real))])
    return moved


def cached(model: PreTrainedModel, inputs: Inputs) -> str:
    """The difference that a KV cache makes to the weights of the rows of the ninth token (a decoder's sixth)."""
    parameters = inspect.signature(model.forward).parameters
    count, first, whole = _steps(inputs)
    output = run(deepcopy(model), first)
    cache = next((name for name in CACHES if name in parameters and getattr(output, name, None) is not None), None)
    if cache is None:
        return "no cache"
    positions: Inputs = {}
    if "position_ids" in parameters and hasattr(getattr(model, "model", model), "rope_deltas"):
        positions["position_ids"] = torch.tensor([[count]])  # positions in space and time are counted by `generate`
    everything, _ = weights_and_output(deepcopy(model), whole)
    _, output = weights_and_output(watched := deepcopy(model), first)
    then, output = weights_and_output(watched, _next(inputs, output, count, cache) | positions)
    plain = run(eager := deepcopy(model), first)
    plain = run(eager, _next(inputs, plain, count, cache) | positions)
    moved = Moved(0.0, 0.0, furthest(output, plain))
    for place, weights in everything.items():
        if place in then:
            moved.weights = max(moved.weights, _last_rows(then[place], weights))
    moved.model = _last_outputs(plain, run(deepcopy(model), whole))
    return str(moved) if everything else ""


CACHES = ("cache", "past_key_values", "cache_params", "past_buckets_states")


def answer_or_error(question: Callable[..., str], *arguments: Any) -> str:
    """The answer of `question`, or what the model or `attn` raised instead."""
    try:
        return question(*arguments)
    except AttnError as error:
        return f"refused: {error.message}"
    except Exception as error:  # models raise anything
        line = (str(error).strip().splitlines() or [""])[0]
        return f"can't run: {type(error).__name__}: {line}"[:90]


def weights_and_output(
    model: PreTrainedModel, inputs: Inputs, tokens: tuple[int, ...] | None = None
) -> tuple[Weights, Any]:
    """The weights of every call, and the model's output; `tokens` is how many each text has, as sources say it."""
    weights: Weights = {}
    texts = None if tokens is None else [[Token(i, str(i)) for i in range(count)] for count in tokens]

    def visit(call: Call) -> None:
        matrix = reduce(call, MatrixOf()).part(Matrix)
        assert matrix is not None and matrix.weights is not None
        weights[call.place.text, call.place.name, call.place.call] = matrix.weights

    with capture(model, visit, texts=texts):
        output = run(model, inputs)
    return weights, output


def _is_of_text(name: str, x: Any) -> bool:
    """True if an input belongs to the text or to the decoder's input; switches do."""
    return not isinstance(x, torch.Tensor) or name.startswith("decoder_") or x.shape[:2] == TOKENS.shape


def _cut(inputs: Inputs, length: int) -> Inputs:
    return {
        name: x[:, :length] if isinstance(x, torch.Tensor) and not name.startswith("decoder_") else x
        for name, x in inputs.items()
    }


def _batch(inputs: Inputs, side: str) -> Inputs:
    batch: Inputs = {}
    pad = LONG - SHORT
    for name, x in inputs.items():
        if not isinstance(x, torch.Tensor):
            batch[name] = x
        elif name.startswith("decoder_"):
            batch[name] = x.repeat(2, *[1] * (x.ndim - 1))
        else:
            blank = x.new_zeros((1, pad, *x.shape[2:]))
            parts = [x[:, :SHORT], blank] if side == "right" else [blank, x[:, :SHORT]]
            batch[name] = torch.cat([x, torch.cat(parts, dim=1)])
    mask = torch.ones(2, LONG, dtype=torch.long)
    mask[1, slice(SHORT, None) if side == "right" else slice(0, pad)] = 0
    batch["attention_mask"] = mask
    return batch


def _between(of_batch: Weights, alone: Weights, side: str) -> float:
    """The largest difference of the same calls, which must be of the same shape; padded on the left, where texts are
    not by `attn` itself, what a module added on that side is cut."""
    if of_batch.keys() != alone.keys():
        return np.inf
    worst = 0.0
    for place, expected in alone.items():
        x, (n, m) = of_batch[place], expected.shape[1:]
        if side == "left":
            x = x[:, -n:, -m:]
        worst = max(worst, float(np.abs(x - expected).max()) if x.shape == expected.shape else np.inf)
    return worst


def _of(output: Any, text: int, real: slice) -> Iterator[torch.Tensor]:
    """The numbers of one text of a batch, those of its real tokens where there is one for every token."""
    for x in numbers(output):
        if x.ndim > 1 and x.shape[0] <= 2:
            of_text = x[min(text, x.shape[0] - 1)]
            yield of_text[real] if of_text.shape[0] == LONG else of_text


def _apart(x: torch.Tensor, y: torch.Tensor) -> float:
    """The relative difference of two tensors; 0 for such that can't be compared, as their sizes are of the batch."""
    return difference(x, y) if x.shape == y.shape else 0.0


def _steps(inputs: Inputs) -> tuple[int, Inputs, Inputs]:
    """The number of tokens read first, 8 of a text or 5 of a decoder, and the inputs of those and of one more."""
    if "decoder_input_ids" not in inputs:
        return SHORT, *(_cut(inputs, stop) | {"use_cache": True} for stop in (SHORT, SHORT + 1))
    x = inputs["decoder_input_ids"]
    return 5, *(inputs | {"decoder_input_ids": x[:, :stop]} for stop in (5, 6))  # by default with a cache


def _next(inputs: Inputs, output: Any, count: int, cache: str) -> Inputs:
    """The inputs of the token after the first `count`, given what they left."""
    last = slice(count, count + 1)
    kept = {cache: getattr(output, cache)}
    if "decoder_input_ids" not in inputs:
        return _cut(inputs, count + 1) | kept | {"use_cache": True} | {
            name: x[:, last] for name, x in inputs.items()
            if isinstance(x, torch.Tensor) and name != "attention_mask"
        }  # fmt: skip
    kept["decoder_input_ids"] = inputs["decoder_input_ids"][:, last]
    hidden = getattr(output, "encoder_last_hidden_state", None)
    if hidden is None:
        return inputs | kept
    encoded = MoEModelOutput(last_hidden_state=hidden, router_probs=())
    encoded["router_logits"] = ()
    return {name: x for name, x in inputs.items() if name != "input_ids"} | kept | {"encoder_outputs": encoded}


def _last_rows(stepped: np.ndarray, whole: np.ndarray) -> float:
    """The largest difference of the last rows; keys that a cache of a window dropped must have had no weight."""
    n, m = stepped.shape[1:]
    if n > whole.shape[1] or m > whole.shape[2]:
        return np.inf
    rows, gone = whole[:, -n:], whole.shape[2] - m
    plain = max(float(np.abs(stepped - rows[:, :, gone:]).max()), float(rows[:, :, :gone].max(initial=0.0)))
    if not gone:
        return plain
    # Summaries of earlier keys may stand behind the dropped ones: then the weights are the same but for zeros.
    sorted_ = [-np.sort(-x, axis=-1) for x in (stepped, rows)]
    return min(plain, float(np.abs(sorted_[0] - sorted_[1][:, :, :m]).max()))


def _last_outputs(stepped: Any, whole: Any) -> float:
    worst = 0.0
    for x, y in zip(numbers(stepped), numbers(whole), strict=False):
        if x.ndim == y.ndim == 3 and x.shape[1] <= y.shape[1] and x.shape[2] == y.shape[2]:
            worst = max(worst, difference(y[:, -x.shape[1] :], x))
    return worst
