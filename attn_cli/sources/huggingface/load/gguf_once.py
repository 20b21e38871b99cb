"""Reading a .gguf file once and fast, where transformers reads it three times and slowly."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import gguf
import numpy as np


class PlainReader(gguf.GGUFReader):  # type: ignore[misc]  # gguf has no types
    """gguf's reader on an ordinary array: indexing a `np.memmap`, as it does for every token, takes 5 times longer."""

    data: Any

    def _get(self, *arguments: Any, **keywords: Any) -> Any:
        if isinstance(self.data, np.memmap):
            self.data = self.data.view(np.ndarray)
        return super()._get(*arguments, **keywords)


@contextmanager
def read_once() -> Iterator[None]:
    """While open, transformers parses a .gguf file once for configuration, tokenizer and weights, with equal results.

    Vocabulary and merges are a Python object per entry, and transformers makes them anew each time; it also makes the
    table of tensor names anew for every module of the model. For 135 M parameters: 18 s of loading become 6 s.
    """
    before = gguf.GGUFReader, gguf.get_tensor_name_map
    gguf.GGUFReader, gguf.get_tensor_name_map = cache(PlainReader), cache(gguf.get_tensor_name_map)
    try:
        yield
    finally:
        gguf.GGUFReader, gguf.get_tensor_name_map = before
