"""The input of the block that is running: the residual stream before it, one vector per token."""

from collections.abc import Mapping
from contextlib import AbstractContextManager

import numpy as np
import torch
from torch import nn

from attn_cli.arrays import to_numpy
from attn_cli.sources.huggingface.anatomy.hooks import block_hooks, hooked


class BlockInputs:
    """Keeps a reference to the hidden states with which the transformer block that runs now was called."""

    def __init__(self) -> None:
        self._path, self._vectors = "", torch.empty(0)

    def watching(self, blocks: Mapping[nn.Module, str]) -> AbstractContextManager[None]:
        """Context manager: keeps the inputs of these blocks, given with their paths."""
        return hooked(*block_hooks(blocks, self._enter))

    def lengths(self, path: str, text: int, size: tuple[int, int], keys: slice) -> np.ndarray | None:
        """The Euclidean norm of each key's vector in the input of the running block, which holds the module at `path`.

        text  the index of the batch element
        size  the size of the batch, and how many keys the attention has for each element
        keys  those of the text without padding, of which there are m

        `[m]`; None where another block runs, or its input is no vector per key.
        """
        vectors = self._vectors
        if not path.startswith(f"{self._path}.") or tuple(vectors.shape[:-1]) != size:
            return None
        lengths: np.ndarray = to_numpy(torch.linalg.vector_norm(vectors[text, keys].detach().float(), dim=-1))
        return lengths

    def _enter(self, path: str, given: torch.Tensor | None) -> None:
        self._path, self._vectors = path, torch.empty(0) if given is None else given
