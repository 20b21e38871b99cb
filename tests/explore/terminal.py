"""The program in a real pseudo-terminal: keys go in, and what it writes becomes a screen."""

import os
import sys
import termios
import time
from collections.abc import Callable
from types import TracebackType

import pexpect
import pyte

from tests.program import SHORT, environment, heeding_signals, program


class Terminal:
    """A process in a terminal of `columns` x `lines`; a context manager that ends it.

    screen   what a person sees
    written  how many bytes came in all
    flags    those of termios that say what becomes of keys, at the end
    """

    def __init__(
        self,
        *arguments: object,
        columns: int = 80,
        lines: int = 24,
        env: dict[str, str] | None = None,
        command: list[str] | None = None,
    ) -> None:
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.ByteStream(self.screen)
        self.written = 0
        self.log = b""
        self.flags = 0
        words = command or program(*arguments)
        variables = environment(**({"TERM": "xterm-256color", "COLORTERM": "truecolor"} | (env or {})))
        self.process = pexpect.spawn(
            words[0], words[1:], dimensions=(lines, columns), env=variables, timeout=SHORT, preexec_fn=heeding_signals
        )

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None:
            print(self.text, file=sys.stderr)
        self.process.close(force=True)

    @property
    def text(self) -> str:
        columns, buffer = range(self.screen.columns), self.screen.buffer
        return "\n".join("".join(buffer[y][x].data for x in columns).rstrip() for y in range(self.screen.lines))

    def read(self, seconds: float = 0.05) -> bytes:
        try:
            data: bytes = self.process.read_nonblocking(65536, timeout=seconds)
        except (pexpect.TIMEOUT, pexpect.EOF):
            return b""
        self.written += len(data)
        self.log += data
        self.show(data)
        return data

    def show(self, data: bytes) -> None:
        self.stream.feed(data)

    def wait(self, *words: str, until: Callable[[str], bool] | None = None) -> str:
        end = time.monotonic() + SHORT
        while not all(word in self.text for word in words) or (until is not None and not until(self.text)):
            assert time.monotonic() < end, f"{words} never came\n{self.text}"
            alive = self.process.isalive()  # asked first: what was written before the end can still be read
            assert self.read() or alive, f"it ended with {self.process.exitstatus}\n{self.text}"
        return self.text

    def settle(self, seconds: float = 0.3) -> None:
        end = time.monotonic() + SHORT
        while self.read(seconds):
            assert time.monotonic() < end, f"it never rests\n{self.text}"

    def press(self, keys: str) -> None:
        self.process.send(keys)

    def end(self) -> int:
        """The exit code, or minus the signal, when the process has ended by itself."""
        deadline = time.monotonic() + SHORT
        while self.process.isalive():
            assert time.monotonic() < deadline, self.text
            self.read()
        while self.read():
            pass
        self.flags = termios.tcgetattr(self.process.child_fd)[3]
        self.process.close()
        return -self.process.signalstatus if self.process.signalstatus else int(self.process.exitstatus or 0)

    def wait_until_stopped(self) -> None:
        deadline = time.monotonic() + SHORT
        while os.waitpid(self.process.pid, os.WUNTRACED | os.WNOHANG) == (0, 0):
            assert time.monotonic() < deadline, self.text
            self.read()
        while self.read():  # what it wrote last
            pass

    @property
    def echoes(self) -> bool:
        """True if the terminal echoes typed text and passes it on by lines, as shells leave it."""
        flags = self.flags if self.process.closed else termios.tcgetattr(self.process.child_fd)[3]
        return bool(flags & termios.ECHO and flags & termios.ICANON and flags & termios.ISIG)

    def resize(self, columns: int, lines: int) -> None:
        self.screen.resize(lines, columns)
        self.process.setwinsize(lines, columns)

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)
