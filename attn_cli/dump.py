"""The arrays that another engine kept while it ran a model: arrays by name, read one at a time, and the tokens."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class DumpArray:
    """An array that another engine saved, by its name; `read` gives its numbers in float16, float32 or float64.

    shape      of any number of axes
    precision  that it is stored in, such as "bfloat16"
    """

    name: str
    shape: tuple[int, ...]
    precision: str
    read: Callable[[], np.ndarray] = field(repr=False, compare=False)


@dataclass(frozen=True)
class Dump:
    """The arrays of a pass that another engine saved in a file or folder.

    label      its name in messages
    arrays     by name, each with a function that reads its numbers
    tokens     the ids that the engine read; None where none are there
    positions  the positions in the text of the arrays' rows; None where none are given
    """

    label: str
    arrays: tuple[DumpArray, ...]
    tokens: tuple[int, ...] | None = None
    positions: tuple[int, ...] | None = None
