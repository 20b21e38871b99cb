"""Ctrl-C at any moment: exit code 130, no traceback, no half-written file, and no long wait.

Python runs its own handler between two of its instructions, and a product of large matrices is one of them; while
modules are imported, it would show where. So the program ends itself from outside of both.
"""

import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType

_PATIENCE = 0.6  # seconds for the orderly way: temporary files removed, the status line wiped

unfinished: set[Path] = set()
"""The temporary files that a process writes; removed where it ends at once."""


def end_at_once(number: int = signal.SIGINT, frame: FrameType | None = None) -> None:
    """End the process with exit code 130: a signal's handler for the time before there is anything to tidy up."""
    for path in tuple(unfinished):
        with suppress(OSError):
            path.unlink()
    os._exit(128 + signal.SIGINT)


def watch() -> None:
    """End at once on Ctrl-C from now on, and 0.6 s after it where later handlers don't get their turn.

    Does nothing where Ctrl-C is ignored, as for programs that a shell starts in the background.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    signal.signal(signal.SIGINT, end_at_once)
    if not hasattr(os, "set_blocking") or os.name == "nt":
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_wait, args=(reader,), daemon=True, name="interrupts").start()


def _wait(reader: int) -> None:
    while numbers := os.read(reader, 64):
        if signal.SIGINT in numbers:
            time.sleep(_PATIENCE)
            end_at_once()
