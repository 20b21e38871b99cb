"""Running `attn` in tests: in this process, or as a process of its own where that is what matters."""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from unittest import mock

from attn_cli.cli import main

TERMINAL_VARIABLES = (
    *("TERM", "COLORTERM", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"),
    *("ATTN_DEBUG", "PYTHONUNBUFFERED"),
)
SHORT = 60  # seconds that any process of these tests may take on a slow machine; most take half of one


@dataclass(frozen=True)
class Run:
    """The result of a run: its exit code, the bytes on stdout, the text on stderr."""

    code: int
    bytes: bytes
    errors: str

    @property
    def text(self) -> str:
        return self.bytes.decode()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def columns(self) -> int:
        """The longest line but for the command to ask next, which stays whole."""
        return max(len(line) for line in self.lines if not line.startswith("next: "))

    @property
    def json(self) -> Any:
        return strict_json(self.bytes)


def file_words(names: Iterable[str]) -> list[str]:
    """The words that give `attn compute` the files NAME.npy: an option each, or a projection of that name."""
    projections = {"wq", "wk", "wv", "wo"}
    pairs = ((("--projections", f"{x}={x}.npy") if x in projections else (f"--{x}", f"{x}.npy")) for x in names)
    return [word for pair in pairs for word in pair]


def strict_json(data: bytes | str) -> Any:
    """JSON that is JSON: NaN and Infinity, which Python's reader would take, are refused."""

    def refuse(token: str) -> None:
        raise AssertionError(f"{token} is not JSON")

    return json.loads(data, parse_constant=refuse)


def environment(**variables: str) -> dict[str, str]:
    """The environment without anything that a terminal or the user's settings say, and with `variables`."""
    kept = {name: value for name, value in os.environ.items()
            if name not in TERMINAL_VARIABLES and not name.startswith("ATTN_")}  # fmt: skip
    return kept | {"PAGER": "", "ATTN_CACHE": ""} | variables


class Stream(io.TextIOWrapper):
    """A standard stream in memory that says whether it is a terminal."""

    def __init__(self, data: bytes = b"", *, terminal: bool = False, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(data), encoding=encoding, write_through=True)
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


def attn(
    *arguments: object,
    stdin: bytes | None = None,
    terminal: bool = False,
    encoding: str = "utf-8",
    env: dict[str, str] | None = None,
) -> Run:
    """Run `attn` with `arguments` in this process; without `stdin` it sees a terminal at which nobody types."""
    streams = {
        "stdin": Stream(stdin or b"", terminal=stdin is None),
        "stdout": Stream(terminal=terminal, encoding=encoding),
        "stderr": Stream(encoding=encoding),
    }
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    with (
        mock.patch.multiple(sys, argv=["attn", *map(str, arguments)], **streams),
        mock.patch.dict(os.environ, environment(**(env or {})), clear=True),
    ):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
    out, errors = (streams[name].buffer.getvalue() for name in ("stdout", "stderr"))  # type: ignore[attr-defined]
    return Run(code, out, errors.decode(encoding))


def heeding_signals() -> None:
    """For a process that becomes `attn`: background jobs ignore SIGINT, nohup SIGHUP, and what they start does, too."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def program(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "attn_cli", *map(str, arguments)]


def process(*arguments: object, env: dict[str, str] | None = None, **options: Any) -> Run:
    """Run `attn` in a process of its own; `options` are those of subprocess.run."""
    options = {"stdin": subprocess.DEVNULL} | options if "input" not in options else options
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": SHORT} | options
    done = subprocess.run(program(*arguments), env=environment(**(env or {})), check=False, **options)
    return Run(done.returncode, done.stdout or b"", (done.stderr or b"").decode())


def refused(run: Run, code: int, *words: str) -> None:
    """Check that `run` failed with `code`, said why in one line and what to do in a second, and nothing on stdout."""
    assert run.code == code, run
    assert run.bytes == b""
    lines = run.errors.splitlines()
    assert len(lines) in (1, 2), run.errors
    assert lines[0].startswith("attn: ")
    assert all(line.startswith("      ") for line in lines[1:])
    assert "Traceback" not in run.errors
    assert "a bug" not in run.errors
    for word in words:
        assert word in run.errors, run.errors
