"""Long texts on a terminal: in the person's pager, from their beginning."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from shutil import which
from tempfile import TemporaryFile
from typing import IO

from attn_cli.interrupts import end_at_once, last_words

waiting: list[str] = []
"""Texts that are shown in the pager once the command has ended, and let go of its model."""

_NOT_RUN = (126, 127)  # a shell's exit codes where a program isn't there, or is none
_PATIENCE = 0.5  # seconds in which a pager that is told to end does
_PLAIN = re.compile(r"[\w./ -]+")  # a command that needs no shell around it


def is_leafed(text: str, height: int | None) -> bool:
    """True if a text is taller than the `height` lines of a terminal (None for pipes) at which a person sits."""
    is_taller = height is not None and text.count("\n") > height
    return is_taller and sys.stdin is not None and sys.stdin.isatty() and pager() is not None


def pager() -> str | None:
    """The command of the person's pager, PAGER or less; None where it is empty or "cat", or TERM is "dumb"."""
    if os.environ.get("TERM") == "dumb":
        return None
    named = os.environ.get("PAGER", which("less") or "")
    return None if named.strip() in ("", "cat") else named


def leaf_through(text: str) -> None:
    """Show a text in the person's pager, which has the terminal for itself, or print it where it can't be started."""
    command, data = pager(), text.encode("utf-8", "backslashreplace")
    if command is None or not _leafed(command, data):
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def _leafed(command: str, data: bytes) -> bool:
    variables = dict(os.environ)
    if variables.setdefault("LESS", "FRX") != "FRX" and command.strip() in ("less", which("less")):
        command += " -R"  # colours, whatever LESS leaves out
    with TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        try:
            return _run(command, file, variables) not in _NOT_RUN
        except OSError:
            return False


def _run(command: str, stdin: IO[bytes], variables: Mapping[str, str]) -> int:
    """The exit code of a shell command that reads `stdin`: Ctrl-C is its own, another signal to `attn` ends both."""
    whole = f"exec {command}" if _PLAIN.fullmatch(command) else command
    running = subprocess.Popen(whole, shell=True, stdin=stdin, env=variables)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    last_words.append(partial(_end, running.pid))
    try:
        code = running.wait()
    finally:
        last_words.pop()
        signal.signal(signal.SIGINT, before)
    if code == -signal.SIGINT:
        end_at_once(signal.SIGINT)
    return code


def _end(pager: int) -> None:
    for number in (signal.SIGTERM, signal.SIGCONT):
        os.kill(pager, number)
    end = time.monotonic() + _PATIENCE
    with suppress(OSError):
        while not os.waitpid(pager, os.WNOHANG)[0]:
            if time.monotonic() > end:
                os.kill(pager, signal.SIGKILL)
            time.sleep(0.01)
