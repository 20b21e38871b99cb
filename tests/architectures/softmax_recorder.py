"""Inputs and outputs of every softmax of a model: a reference for models that return no attention."""

from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

_SOFTMAX = {torch.nn.functional.softmax, torch.softmax, torch.Tensor.softmax, torch.special.softmax}


class SoftmaxRecorder(TorchFunctionMode):
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
        """The scores that went into the softmax that gave these weights, without the column of a sink."""
        for before, after in self.pairs:
            if after.numel() == weights.numel() and after.shape[-2:] == weights.shape[-2:]:
                before, after = before.reshape(weights.shape), after.reshape(weights.shape)  # heads in the batch
            if after.ndim == weights.ndim and after.shape[:-1] == weights.shape[:-1]:
                kept = after[..., : weights.shape[-1]]
                if kept.shape == weights.shape and bool((kept - weights).abs().max() <= 1e-6):
                    return before[..., : weights.shape[-1]]
        return None

    def furthest(self, matrices: list[np.ndarray]) -> float:
        """The largest difference of weights `[h, n, m]` from the nearest softmax, each looked for after the last."""
        worst, at = 0.0, 0
        outs = [x for _, after in self.pairs for x in (after.numpy() if after.ndim == 4 else [after.numpy()])]
        for x in matrices:
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
