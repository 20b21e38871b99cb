"""Imports of many modules without garbage collection, which would look at all their objects again and again."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Nothing is collected inside; afterwards all is as before."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def collect_from_now_on() -> None:
    """Begin to collect what comes, where nothing was collected since the program began; what is there stays."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
