"""Blocks of a model apart from their attention calls: blocks without any, and vectors before and after a block."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Block:
    """A block of a model in which no attention was seen.

    mixes  what mixes its tokens: "Mamba", "convolution" ..., or "softmax attention" that did not run
    heads  how many heads the attention has that did not run, 0 if unknown
    note   why its attention did not run; "" for a block without softmax attention
    """

    layer: int
    stream: str
    name: str
    mixes: str
    heads: int = 0
    note: str = ""


@dataclass(frozen=True, eq=False)
class BlockVectors:
    """The residual stream of some tokens before and after one block, `[rows, d]`; a table's around attention alone."""

    layer: int
    stream: str
    call: int
    before: np.ndarray
    after: np.ndarray


Arrive = Callable[[BlockVectors], None]
