"""Reading a .gguf file once and fast, where transformers reads it three times and slowly."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import RLock
from typing import Any

import numpy as np
from transformers import modeling_gguf_pytorch_utils

_LOCK = RLock()  # of the two libraries' globals, which are replaced meanwhile


@contextmanager
def read_once() -> Iterator[None]:
    """Context manager: transformers parses a .gguf file once, by an ordinary array in place of numpy's memmap."""
    import gguf  # an optional package

    class PlainReader(gguf.GGUFReader):  # type: ignore[misc]  # gguf has no types
        data: Any

        def _get(self, *arguments: Any, **keywords: Any) -> Any:
            self.data = self.data.view(np.ndarray)  # which is indexed for every token, 5 times quicker
            return super()._get(*arguments, **keywords)

    with _LOCK:
        before = gguf.GGUFReader, gguf.get_tensor_name_map, modeling_gguf_pytorch_utils.tqdm
        gguf.GGUFReader, gguf.get_tensor_name_map = cache(PlainReader), cache(gguf.get_tensor_name_map)
        # Its progress bar heeds TQDM_DISABLE only where that was set before tqdm was imported, as in no notebook.
        modeling_gguf_pytorch_utils.tqdm = lambda tensors, **_: tensors
        try:
            yield
        finally:
            gguf.GGUFReader, gguf.get_tensor_name_map, modeling_gguf_pytorch_utils.tqdm = before
