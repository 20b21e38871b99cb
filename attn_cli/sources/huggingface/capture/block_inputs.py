"""What the block that is running was given: the residual stream before it, one vector per token."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from attn_cli.arrays import to_numpy


class BlockInputs:
    """Keeps the input of the last block that was entered, by reference."""

    def __init__(self) -> None:
        self._path, self._vectors = "", torch.empty(0)

    @contextmanager
    def watching(self, blocks: Mapping[str, nn.Module]) -> Iterator[None]:
        """Context manager: looks at the inputs of these blocks, by their paths."""
        hooks = [
            block.register_forward_pre_hook(self._entering(path), with_kwargs=True) for path, block in blocks.items()
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
            self._vectors = torch.empty(0)

    def lengths(self, path: str, text: int, size: tuple[int, int], keys: slice) -> np.ndarray | None:
        """The lengths of the vectors `[m]` that the block around attention module `path` was given.

        text  the element of the batch; `size` is the batch's, and how many keys the attention has; `keys` those of the
              text without padding

        None where the block isn't known, or was given something else than a vector per key.
        """
        vectors = self._vectors
        if not self._path or not path.startswith(f"{self._path}.") or tuple(vectors.shape[:-1]) != size:
            return None
        return to_numpy(torch.linalg.vector_norm(vectors[text, keys].detach().float(), dim=-1))

    def _entering(self, path: str) -> Any:
        def enter(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            given = args[0] if args else kwargs.get("hidden_states")
            self._path = path if isinstance(given, torch.Tensor) and given.ndim == 3 else ""
            self._vectors = given if self._path and given is not None else torch.empty(0)

        return enter
