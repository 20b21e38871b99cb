"""A model run on its inputs, and outputs of two runs compared."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from tests.architectures.inputs import Inputs


def run(model: PreTrainedModel, inputs: Inputs, **options: Any) -> Any:
    """The model's output; from the same seed every time, as some models draw random blocks."""
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
    """All numbers that a model returned but its attention, of which a few return some by default."""
    values = [x for key, x in output.items() if "attentions" not in key] if hasattr(output, "items") else output
    return [x.double() for x in tensors(values) if x.is_floating_point()]


def tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
        return
    for inner in value if isinstance(value, list | tuple) else value.values() if hasattr(value, "values") else ():
        yield from tensors(inner)
