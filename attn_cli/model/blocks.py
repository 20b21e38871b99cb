"""Blocks of a model apart from their attention calls: blocks without any, and vectors before and after a block."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Block:
    """A block of a model without a captured attention call.

    layer, stream, name  its number, its stack, and the dotted name of its module
    mixes  what mixes its tokens: "Mamba", "convolution" ..., or "softmax attention" that did not run
    heads  of attention that did not run, 0 if unknown
    note   why it did not run; "" for a block without softmax attention
    """

    layer: int
    stream: str
    name: str
    mixes: str
    heads: int = 0
    note: str = ""


@dataclass(frozen=True, eq=False)
class BlockVectors:
    """The vectors of some tokens `before` and `after` one block, `[rows, d]`, in NumPy.

    In a model a block is the attention with all that belongs to it (residual, norms, feed-forward); in a table it is
    the attention alone. `layer`, `stream` and `call` are those of the block's `Place`.
    """

    layer: int
    stream: str
    call: int
    before: np.ndarray
    after: np.ndarray
