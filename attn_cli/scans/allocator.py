"""Memory of large arrays goes back to the system, so that a long scan takes no more than a short one.

The C library keeps what large arrays leave, to use it again. But small ones that stay lie between them, and no two
batches are of quite the same size, so that ever more of it fits nothing: after 100,000 short documents a scan took a
third more than after 10,000. So large arrays are asked of the system; scans take as long as they did.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_MMAP_THRESHOLD = -3  # the parameter of mallopt (malloc.h)
_LARGE = 2**21
_MOST = 2**25  # up to which the C library would raise the threshold by itself


@contextmanager
def memory_given_back() -> Iterator[None]:
    """Context manager: arrays of 2 MiB and more go back to the system at once, what others leave at the end.

    Of glibc alone: elsewhere nothing is done.
    """
    library = _glibc()
    if library is None:
        yield
        return
    library.mallopt(_MMAP_THRESHOLD, _LARGE)
    try:
        yield
    finally:
        library.mallopt(_MMAP_THRESHOLD, _MOST)
        library.malloc_trim(0)


def _glibc() -> Any:
    """The C library, None where it isn't glibc."""
    import ctypes

    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    return library if hasattr(library, "malloc_trim") else None
