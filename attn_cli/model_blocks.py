"""The blocks of a model, apart from their attention calls: those without one, and the vectors before and after."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Block:
    """A block of a model that showed no attention: `mixes` says what it has in its place, or what did not run.

    heads  of attention that did not run, 0 where nobody says; `note` then says why, and is "" otherwise
    """

    layer: int
    stream: str
    name: str
    mixes: str
    heads: int = 0
    note: str = ""


@dataclass(frozen=True, eq=False)
class BlockVectors:
    """What one block made of the vectors of some tokens: `before` and `after` it `[rows, d]`, in NumPy.

    In a model a block is the attention with all that belongs to it (residual, norms, feed-forward); in a table it is
    the attention alone. `layer`, `stream` and `call` are those of the block's `Place`.
    """

    layer: int
    stream: str
    call: int
    before: np.ndarray
    after: np.ndarray
