"""A model run, and what it returned compared."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel

from tests.architectures.inputs import Inputs

_SOFTMAX = {torch.nn.functional.softmax, torch.softmax, torch.Tensor.softmax, torch.special.softmax}


def run(model: PreTrainedModel, inputs: Inputs, **options: Any) -> Any:
    """The model's output; the same random numbers every time, for some draw blocks."""
    torch.manual_seed(0)
    np.random.seed(0)
    copies = {name: x.clone() if isinstance(x, torch.Tensor) else x for name, x in inputs.items()}
    with torch.no_grad():
        return model(**copies, **options)


def furthest(a: Any, b: Any) -> float:
    """The largest difference of two outputs, relative to the largest number of each tensor; NaN equals NaN."""
    return max((difference(x, y) for x, y in zip(numbers(a), numbers(b), strict=True)), default=0.0)


def difference(x: torch.Tensor, y: torch.Tensor) -> float:
    """The largest between two tensors, relative to the largest number of the first; infinite for other shapes."""
    if x.shape != y.shape:
        return np.inf
    both = torch.isfinite(x) & torch.isfinite(y)
    if not bool(both.any()):
        return 0.0
    return float((x - y)[both].abs().max()) / max(1.0, float(x[both].abs().max()))


def numbers(output: Any) -> list[torch.Tensor]:
    """All that a model computed but its attention, of which a few return some unasked."""
    values = [x for key, x in output.items() if "attentions" not in key] if hasattr(output, "items") else output
    return [x.double() for x in tensors(values) if x.is_floating_point()]


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Every tensor in what a model returned."""
    if isinstance(value, torch.Tensor):
        yield value
        return
    for inner in value if isinstance(value, list | tuple) else value.values() if hasattr(value, "values") else ():
        yield from tensors(inner)


class Softmaxes(TorchFunctionMode):
    """Keeps what went into every softmax and what came out, while it is on."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs: list[tuple[torch.Tensor, torch.Tensor]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in _SOFTMAX:
            before = args[0] if args else kwargs["input"]
            self.pairs.append((before.detach().clone().float(), result.detach().clone().float()))
        return result

    def scores_of(self, weights: torch.Tensor) -> torch.Tensor | None:
        """What went into the softmax that gave these weights, without the column of a sink."""
        for before, after in self.pairs:
            if after.numel() == weights.numel() and after.shape[-2:] == weights.shape[-2:]:
                before, after = before.reshape(weights.shape), after.reshape(weights.shape)  # heads in the batch
            if after.ndim == weights.ndim and after.shape[:-1] == weights.shape[:-1]:
                kept = after[..., : weights.shape[-1]]
                if kept.shape == weights.shape and bool((kept - weights).abs().max() <= 1e-6):
                    return before[..., : weights.shape[-1]]
        return None

    def furthest(self, maps: list[np.ndarray]) -> float:
        """The largest difference of maps `[h, n, m]` from the nearest that came out, each looked for after the last."""
        worst, at = 0.0, 0
        outs = [x for _, after in self.pairs for x in (after.numpy() if after.ndim == 4 else [after.numpy()])]
        for x in maps:
            best = np.inf
            for step in range(len(outs)):
                y = outs[(at + step) % len(outs)]
                y = y[..., :-1] if y.shape[-1] == x.shape[-1] + 1 else y  # a sink
                if y.size == x.size and y.shape[-1] == x.shape[-1]:
                    best = min(best, float(np.abs(y.reshape(x.shape) - x).max()))
                    if best <= 1e-5:
                        at += step + 1
                        break
            worst = max(worst, best)
        return worst
