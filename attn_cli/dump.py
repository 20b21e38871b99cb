"""The arrays that another engine kept while it ran a model: arrays by name, read one at a time, and the tokens."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class DumpArray:
    """An array of a dump, by its name; `read` gives its numbers, of any shape, in float16, float32 or float64.

    precision  the one that it is stored in, such as "bfloat16"
    """

    name: str
    shape: tuple[int, ...]
    precision: str
    read: Callable[[], np.ndarray] = field(repr=False, compare=False)


@dataclass(frozen=True)
class StatedRule:
    """What a dump itself says of the attention of its layers.

    heads, kv_heads  how many query heads and key heads each has
    scale            the factor on q kᵀ
    """

    heads: int
    kv_heads: int
    scale: float


@dataclass(frozen=True)
class Dump:
    """The arrays of a file or folder.

    tokens     the ids that the engine read; None where none are there
    positions  the places of the arrays' rows in the text; None where none are given
    others     the names of arrays that hold no numbers of a pass: integers, booleans
    stated     the rule of its layers; None where it states none
    """

    label: str
    arrays: tuple[DumpArray, ...]
    tokens: tuple[int, ...] | None = None
    positions: tuple[int, ...] | None = None
    others: tuple[str, ...] = ()
    stated: StatedRule | None = None
