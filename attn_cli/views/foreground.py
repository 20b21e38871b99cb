"""A program that has the terminal while it runs: Ctrl-C and Ctrl-Z are its own, and a signal to `attn` ends both."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import IO, Any

from attn_cli.interrupts import end_at_once, last_words

_PATIENCE = 0.5  # seconds in which a program that is told to end does
_PLAIN = re.compile(r"[\w./ -]+")  # a command that needs no shell around it


def run_in_foreground(command: str, stdin: IO[bytes], variables: Mapping[str, str]) -> int:
    """The exit code of a shell command that reads `stdin`, and has keys and signals of the terminal for itself."""
    try:
        terminal, own = sys.stdin.fileno(), os.getpgrp()
        is_ours = os.tcgetpgrp(terminal) == own
    except (AttributeError, OSError, ValueError):  # Windows, or no terminal
        is_ours = False
    if not is_ours:
        return subprocess.run(command, shell=True, stdin=stdin, env=variables, check=False).returncode
    import termios

    before = termios.tcgetattr(terminal)
    ready, go = os.pipe()
    whole = f"read -r go <&{ready}; {'exec ' if _PLAIN.fullmatch(command) else ''}{command}"
    running = subprocess.Popen(whole, shell=True, stdin=stdin, env=variables, pass_fds=[ready], process_group=0)
    _give(terminal, running.pid)
    take_back = partial(_take_back, terminal, own, before)
    last_words.append(partial(_end, running.pid, take_back))
    os.close(ready)
    os.close(go)  # it has waited for this
    try:
        while True:
            status = os.waitpid(running.pid, os.WUNTRACED)[1]
            if not os.WIFSTOPPED(status):
                break
            take_back()  # Ctrl-Z
            os.killpg(own, signal.SIGSTOP)
            _give(terminal, running.pid)
            os.killpg(running.pid, signal.SIGCONT)
    finally:
        last_words.pop()
        take_back()
    running.returncode = os.waitstatus_to_exitcode(status)
    if running.returncode == -signal.SIGINT:
        end_at_once(signal.SIGINT)
    return running.returncode


def _give(terminal: int, group: int) -> None:
    handler = signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # which stops those in the background that do so
    with suppress(OSError):
        os.tcsetpgrp(terminal, group)
    signal.signal(signal.SIGTTOU, handler)


def _take_back(terminal: int, own: int, before: list[Any]) -> None:
    import termios

    _give(terminal, own)
    with suppress(termios.error):
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _end(group: int, take_back: "partial[None]") -> None:
    for number in (signal.SIGTERM, signal.SIGCONT):
        with suppress(OSError):
            os.killpg(group, number)
    end = time.monotonic() + _PATIENCE
    with suppress(OSError):
        while not os.waitpid(group, os.WNOHANG)[0]:
            if time.monotonic() > end:
                os.killpg(group, signal.SIGKILL)
            time.sleep(0.01)
    take_back()
