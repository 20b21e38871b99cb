"""Mistakes in the cos and sin that attention is given, for layers whose rotated queries can't be told from others."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedModel

from attn_cli.arrays import at_least_float32, to_numpy
from attn_cli.kernel.lessons.mistakes.turned import wrong_tables
from attn_cli.model.stations import PlantedMistake
from attn_cli.sources.huggingface.anatomy.hooks import hooked
from attn_cli.sources.huggingface.rope.reader import tables_in
from attn_cli.sources.huggingface.stations.changes import Layers, ModuleMistake, is_made, of_layers
from attn_cli.sources.huggingface.stations.other_angles import other_angles
from attn_cli.sources.huggingface.stations.sites import Sites

_Wrong = Callable[[int, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray] | None]
"""Makes wrong cos and sin `[n, pairs]` of a layer's right ones."""


def mistakes_of_tables(model: PreTrainedModel, sites: Sites) -> Iterator[ModuleMistake]:
    """Every mistake in the cos and sin of rotary positions, for attention modules that are given these as arguments."""
    modules = [(layer, module) for layer, module in of_layers(sites, "attention") if module in sites.tables]
    names: dict[str, str] = {}
    for layer, module in modules:
        pairs = _pairs(*sites.tables[module])
        if pairs is not None:
            names.setdefault("rotary-missing", "q and k were not rotated: rotary positions are missing")
            for name, words, *_ in _every(model, layer, *pairs[:2]):
                names.setdefault(name, words)
    for name, words in names.items():
        yield ModuleMistake(
            PlantedMistake(name, words, "q_rotated"), partial(_given_wrong, partial(_wrong, model, name), modules)
        )


def _every(
    model: PreTrainedModel, layer: int, cos: np.ndarray, sin: np.ndarray
) -> Iterator[tuple[str, str, np.ndarray, np.ndarray]]:
    return wrong_tables(cos, sin, other_angles(model.config, layer, cos.shape[1], 2 * cos.shape[1]))


def _wrong(
    model: PreTrainedModel, name: str, layer: int, cos: np.ndarray, sin: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    if name == "rotary-missing":
        return np.ones_like(cos), np.zeros_like(sin)
    return next(((one, other) for own, _, one, other in _every(model, layer, cos, sin) if own == name), None)


def _pairs(
    cos: torch.Tensor, sin: torch.Tensor
) -> tuple[np.ndarray, np.ndarray, Callable[[np.ndarray], np.ndarray]] | None:
    """cos and sin `[n, pairs]` of one text, and what makes `[n, columns]` of such; None for several texts or axes."""
    if cos.shape[-2] * cos.shape[-1] != cos.numel():
        return None
    one, other = (to_numpy(at_least_float32(x)).astype(np.float64).reshape(x.shape[-2:]) for x in (cos, sin))
    half = one.shape[-1] // 2
    if np.array_equal(one[:, :half], one[:, half:]) and np.array_equal(other[:, :half], other[:, half:]):
        return one[:, :half], other[:, :half], lambda x: np.concatenate([x, x], -1)
    if np.array_equal(one[:, ::2], one[:, 1::2]):
        return one[:, ::2], other[:, ::2], lambda x: np.repeat(x, 2, -1)
    return one, other, lambda x: x


def _given_wrong(
    wrong: _Wrong, modules: Sequence[tuple[int, nn.Module]], layers: Layers
) -> AbstractContextManager[None]:
    chosen = [(layer, module) for layer, module in modules if is_made(layer, layers)]
    return hooked(*(module.register_forward_pre_hook(partial(_give, partial(wrong, layer)), with_kwargs=True)
                    for layer, module in chosen))  # fmt: skip


def _give(wrong: Callable[..., Any], module: nn.Module, args: Any, kwargs: Any) -> Any:
    def instead(value: Any) -> Any:
        tables = next(tables_in([value]), None)
        pairs = None if tables is None or isinstance(value, torch.Tensor) else _pairs(*tables)
        made = None if pairs is None else wrong(*pairs[:2])
        if made is None or pairs is None:
            return value
        return tuple(
            torch.from_numpy(pairs[2](x)).to(like).reshape(like.shape) for x, like in zip(made, value, strict=True)
        )

    return tuple(map(instead, args)), {name: instead(value) for name, value in kwargs.items()}
