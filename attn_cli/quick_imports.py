"""Imports of many modules without garbage collection, which would look at all their objects again and again."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Context manager: Python's garbage collector is off inside; afterwards it is as before."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def collect_from_now_on() -> None:
    """Turn Python's garbage collector on, if it was off; objects that exist by now are never looked at."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
