"""Silence for compiled libraries, which print past Python's streams while files of a model are read."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_native_output() -> Iterator[None]:
    """Context manager: what compiled code writes to standard output is dropped."""
    if sys.stdout is not None:
        sys.stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:  # closed by the caller: nothing can be printed there
        yield
        return
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.close(nothing)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
