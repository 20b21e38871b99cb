"""The user's own output or weights in the axes of the definition's; other common layouts are recognised."""

from typing import NamedTuple

import numpy as np

from attn_cli.errors import InputError
from attn_cli.kernel.definition.heads import split_heads
from attn_cli.kernel.lessons.precision import PRECISIONS, Precision, precision_of
from attn_cli.sources.files.array_file import read_array, widened_from
from attn_cli.sources.matrices import Matrices


class ExpectedArray(NamedTuple):
    """The user's output or weights, to be checked: `[batch, h, n, e or m]`, or `[batch, n, width]`."""

    values: np.ndarray
    precision: Precision
    notes: tuple[str, ...]


def read_expected(spec: str, name: str, matrices: Matrices) -> ExpectedArray:
    """The user's file `spec`, to be compared with the "output" or the "weights" (`name`) of `matrices`."""
    array = read_array(spec, name=name, allow_nonfinite=True)
    values = array.astype(np.float64)
    lead, h, n = matrices.lead, matrices.q.shape[-3], matrices.q.shape[-2]
    last = matrices.k.shape[-2] if name == "weights" else _width(matrices)
    joined = matrices.joined and name == "output"
    layout = (*lead, n, last) if joined else (*lead, h, n, last)
    notes = []
    if _squeezed(values.shape) == _squeezed(layout):  # axes of length 1 don't matter
        values = values.reshape(layout)
    elif not joined and _squeezed(values.shape) == _squeezed((*lead, n, h, last)):
        values = values.reshape(*lead, n, h, last).swapaxes(-2, -3)
        letter = "m" if name == "weights" else "e"
        notes = [f"{spec}: rows before heads {array.shape}, read as [..., n, h, {letter}]"]
    elif not joined and name == "output" and _squeezed(values.shape) == _squeezed((*lead, n, h * last)):
        values = split_heads(values.reshape(*lead, n, h * last), h)
        notes = [f"{spec}: concatenated heads {array.shape}, cut into {h}"]
    else:
        shape = layout if matrices.head_axis or joined else (*lead, n, last)
        slip = "is it transposed?" if values.shape[-2:] == (last, n) else f"the definition's {name} of these matrices"
        raise InputError(f"{name} {spec} has shape {array.shape} but the definition gives {shape}", slip)
    stored = widened_from(spec, name=name)
    precision = precision_of(array) if stored is None else PRECISIONS[stored]
    if stored is None and precision.name != str(array.dtype) and array.dtype == np.float32:
        notes.append(f"{spec}: {array.dtype} that holds numbers of {precision.name} alone, checked as {precision.name}")
    return ExpectedArray(values.reshape(-1, *values.shape[len(lead) :]), precision, tuple(notes))


def _width(matrices: Matrices) -> int:
    if matrices.made.projection is not None:
        return int(matrices.made.projection.shape[-1])
    return matrices.e * matrices.q.shape[-3] if matrices.joined else matrices.e


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)
