"""Other people's code, such as a chat template, run in a process that may take only so much time and memory."""

import faulthandler
import os
import select
import signal
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

MOST_SECONDS = 5
MOST_BYTES = 400_000_000
_MOST_WAIT = 60.0
_IDLE = 0.5  # seconds of processor, at most, of a process that waits for a lock without working


class LimitExceededError(Exception):
    """The work took more than its limits; the text says which."""


class WorkFailedError(Exception):
    """The work ended in an exception of any type; the text is its first line."""


def run_limited(work: Callable[[], str], most_letters: int = 1_000_000) -> str:
    """The text that `work` returns in a forked process of at most 5 s of processor time and 400 MB more memory.

    most_letters  how long the text may be

    Runs `work` in this process where there is no fork, and where the forked one waits without working: a library's lock
    may be held there.

    Raises LimitExceededError and WorkFailedError.
    """
    if not hasattr(os, "fork"):
        return _answer(work, most_letters)
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of a fork beside threads; those of numeric libraries sleep
        child = os.fork()
    if child == 0:
        _work(work, most_letters, reader, writer)
    os.close(writer)
    try:
        answer = _received(reader)
    finally:
        os.close(reader)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        _, status, usage = os.wait4(child, 0)
    if answer[:1] == b"+":
        return answer[1:].decode("utf-8", "surrogatepass")
    if answer[:1] == b"-":
        raise WorkFailedError(answer[1:].decode("utf-8", "replace"))
    if answer[:1] == b"!":
        raise LimitExceededError(answer[1:].decode())
    worked = usage.ru_utime + usage.ru_stime
    if worked > MOST_SECONDS - 1:
        raise LimitExceededError(f"more than {MOST_SECONDS} s")
    if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
        raise LimitExceededError(f"more than {MOST_BYTES // 10**6} MB of memory")
    if worked > _IDLE:  # slowly, on a busy machine, or ended by the system for its memory
        raise LimitExceededError(f"more than {_MOST_WAIT:.0f} s on this busy machine, or more memory than it has")
    return _answer(work, most_letters)


def _answer(work: Callable[[], str], most_letters: int) -> str:
    try:
        text = work()
    except Exception as error:
        raise WorkFailedError(_line(error)) from error
    if len(text) > most_letters:
        raise LimitExceededError(f"more than {most_letters:,} letters")
    return text


def _work(work: Callable[[], str], most_letters: int, reader: int, writer: int) -> None:
    """In the forked process: write a sign and a text, and end without the interpreter's own ending."""
    answer = b"-"
    try:
        os.close(reader)
        faulthandler.disable()
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGXCPU):
            signal.signal(number, signal.SIG_DFL)
        _limit()
        answer = b"+" + _answer(work, most_letters).encode("utf-8", "surrogatepass")
    except LimitExceededError as error:
        answer = b"!" + str(error).encode()
    except WorkFailedError as error:
        answer = b"-" + str(error).encode("utf-8", "replace")
        if isinstance(error.__cause__, MemoryError):
            answer = b"!more than %d MB of memory" % (MOST_BYTES // 10**6)
    except BaseException as error:  # also a panic of a library in Rust
        with suppress(Exception):
            answer = b"-" + _line(error).encode("utf-8", "replace")
    finally:
        with suppress(BaseException), os.fdopen(writer, "wb") as pipe:
            pipe.write(answer)
        os._exit(0)


def _limit() -> None:
    """Limit this process's time and, where the system reports what it has, its memory."""
    import resource  # not on Windows, which has no fork either

    with suppress(OSError, ValueError):  # as where the process has a lower limit already
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS + 1))
    with suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        most = pages * os.sysconf("SC_PAGE_SIZE") + MOST_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _received(reader: int) -> bytes:
    """The output of the forked process until it ends; nothing where it takes more than a minute."""
    pieces: list[bytes] = []
    end = time.monotonic() + _MOST_WAIT
    while select.select([reader], [], [], max(0.0, end - time.monotonic()))[0]:
        piece = os.read(reader, 2**16)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
    return b""


def _line(error: BaseException) -> str:
    line = next(iter(str(error).strip().splitlines()), "")
    return line[:300] or type(error).__name__
