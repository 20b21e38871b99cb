"""The inputs and outputs of an attention module and its parts while it runs, from which its RoPE layout is found."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from attn_cli.arrays import at_least_float32, to_numpy
from attn_cli.kernel.definition.positions import Turning
from attn_cli.sources.huggingface.anatomy.hooks import hooked
from attn_cli.sources.huggingface.rope.layout import Angles, find_rope_layout

_CONSTANT = 1e-2  # the most that cos² + sin² of one table differs, in half precision
_LEAST_TOLERANCE = 1e-4


@dataclass(eq=False)
class _Run:
    """One run of an attention module: its arguments, and the input and output of every module in it."""

    given: list[Any]
    steps: list[tuple[nn.Module, Any, Any]] = field(default_factory=list)

    @property
    def outputs(self) -> list[Any]:
        return [output for _, _, output in self.steps]

    def pre_rope_outputs(self) -> list[Any]:
        memory = {_memory(x) for value in (*self.given, *self.outputs) for x in _tensors(value)}
        return [
            output
            for module, inputs, output in self.steps
            if _projects(module) or all(_memory(x) in memory for x in _tensors(inputs))
        ]


class RotationReader:
    """Keeps an attention module's arguments and its modules' outputs, by reference, to find how q and k were turned."""

    def __init__(self) -> None:
        self._runs: list[_Run] = []

    def watching(self, modules: Sequence[nn.Module]) -> AbstractContextManager[None]:
        """Context manager: keeps arguments and outputs of these attention modules, each while it runs."""
        handles = []
        for module in modules:
            handles.append(module.register_forward_pre_hook(self._enter, with_kwargs=True))
            handles.append(module.register_forward_hook(self._leave, always_call=True))
            handles += [part.register_forward_hook(self._keep) for part in module.modules() if part is not module]
        return hooked(*handles)

    def turning(self, query: torch.Tensor, text: int, rows: slice, keys: slice) -> Any:
        """A function that finds, when called, how rotary positions turned queries and keys of the call visited now."""
        run = self._runs[-1] if self._runs else _Run([])
        return partial(_turning, run, query, text, rows, keys)

    def _enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._runs.append(_Run([*args, *kwargs.values()]))

    def _keep(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if self._runs:
            self._runs[-1].steps.append((module, args, output))

    def _leave(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        self._runs.pop()


def _turning(run: _Run, query: torch.Tensor, text: int, rows: slice, keys: slice) -> Turning:
    place = rows.stop - 1
    direction = _numbers(query[text, 0, place])
    b, n = query.shape[0], query.shape[2]
    outputs = [_numbers(row) for x in run.pre_rope_outputs() for row in _rows(x, text, place, b, n)]
    tables = [
        Angles(cos[keys], sin[keys])
        for pair in (*_tables_in(run.given), *_tables_in(run.outputs))
        for cos, sin in _of_text(pair, text, keys.stop)
    ]
    tolerance = max(_LEAST_TOLERANCE, 4 * torch.finfo(query.dtype).eps)
    # queries are the last of the keys
    return find_rope_layout(direction, keys.stop - keys.start - 1, tables, outputs, tolerance)


def _rows(output: Any, text: int, place: int, b: int, n: int) -> Iterator[torch.Tensor]:
    """A module's output for the token at `place` of a text: a slice of every axis that can be that of tokens."""
    for x in _tensors(output):
        if x.ndim < 2 or not x.is_floating_point():
            continue
        if x.shape[0] == b * n and b > 1:
            yield x[text * n + place].flatten()
        own = x[text] if x.shape[0] == b and x.ndim > 2 else x
        yield from (own.select(axis, place).flatten() for axis in range(own.ndim - 1) if own.shape[axis] == n)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if type(value) in (torch.Tensor, nn.Parameter):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _tensors(part)


def _memory(x: torch.Tensor) -> int:
    return x.untyped_storage().data_ptr()


def _projects(module: nn.Module) -> bool:
    return any(weights.ndim > 1 for weights in module.parameters())


def _tables_in(values: Iterable[Any]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    for value in values:
        if isinstance(value, torch.Tensor) and value.is_complex():
            value = (value.real, value.imag)
        if not isinstance(value, tuple | list) or len(value) != 2:
            continue
        cos, sin = value
        if not (isinstance(cos, torch.Tensor) and isinstance(sin, torch.Tensor)):
            continue
        if cos.shape != sin.shape or cos.ndim < 2 or not cos.is_floating_point() or cos.numel() == 0:
            continue
        squares = cos.float().square() + sin.float().square()
        if float(squares.max() - squares.min()) <= _CONSTANT * float(squares.max()):
            yield cos, sin


def _of_text(pair: tuple[torch.Tensor, torch.Tensor], text: int, keys: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    cos, sin = pair
    while cos.ndim > 2:
        if cos.shape[0] == 1 or (cos.ndim == 3 and cos.shape[0] > text and cos.shape[1] >= keys):
            at = 0 if cos.shape[0] == 1 else text
            cos, sin = cos[at], sin[at]
        elif cos.shape[1] == 1:
            cos, sin = cos[:, 0], sin[:, 0]
        else:
            for one, other in zip(cos, sin, strict=True):
                yield from _of_text((one, other), text, keys)
            return
    if cos.shape[0] >= keys:
        yield _numbers(cos), _numbers(sin)


def _numbers(x: torch.Tensor) -> np.ndarray:
    return to_numpy(at_least_float32(x)).astype(np.float64)
