"""A signal while the pager is open ends it and `attn`, the terminal is itself again; the model was freed before."""

import gc
import shlex
import signal
import time
from pathlib import Path

import pytest
import torch

from tests.explore.terminal import Terminal
from tests.program import attn, program
from tests.real_models import MINILM
from tests.views.test_golden import LONG

SCREEN = {"COLUMNS": "80", "LINES": "24", "TERM": "xterm-256color"}
CODES = [(signal.SIGTERM, 143), (signal.SIGINT, 130), ("\x03", 130)]


def ends(terminal: Terminal, number: signal.Signals | str) -> int:
    start = time.monotonic()
    terminal.press(number) if isinstance(number, str) else terminal.signal(number)
    code = terminal.end()
    assert time.monotonic() - start < 1
    assert terminal.echoes
    return code


def running(name: str) -> list[Path]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            alive = " Z " not in (process / "stat").read_text()[:60]
            found += [process] if alive and name.encode() in (process / "cmdline").read_bytes() else []
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    ("pager", "number", "code"),
    [("less -P a-prompt-of-its-own", *CODES[0]), ("less -P a-prompt-of-its-own", *CODES[1]),
     ("true; sleep 98765; true", *CODES[0])],
)  # fmt: skip
def test_a_signal_ends_the_pager_and_the_program(pager: str, number: signal.Signals | str, code: int) -> None:
    with Terminal("top", LONG, env={"PAGER": pager}) as terminal:
        own = pager.rpartition("; ")[0].rpartition("; ")[2] or pager
        own = own.replace(" ", "\0")
        deadline = time.monotonic() + 30
        while not running(own):
            assert time.monotonic() < deadline
            terminal.read()
        if own.startswith("less"):
            terminal.wait("a-prompt-of-its-own")
            assert not terminal.echoes
        assert ends(terminal, number) == code
    assert running(own) == []


def test_ctrl_c_that_ends_the_pager_ends_the_program() -> None:
    with Terminal("top", LONG, env={"PAGER": "echo open; sleep 98765"}) as terminal:
        terminal.wait("open")
        assert ends(terminal, "\x03") == 130
    assert running("sleep\x0098765") == []


def test_ctrl_z_stops_both_and_fg_goes_on() -> None:
    command = shlex.join(program("top", LONG))
    shell = ["bash", "--norc", "--noprofile", "-i"]
    with Terminal(command=shell, env={"PAGER": "less -P a-prompt-of-its-own", "PS1": "$ "}) as terminal:
        terminal.wait("$")
        terminal.press(f"{command}\r")
        terminal.wait("a-prompt-of-its-own")
        terminal.press("\x1a")
        terminal.wait("Stopped")
        terminal.press("clear; fg; echo code $?\r")
        terminal.wait("a-prompt-of-its-own")
        terminal.press("q")
        terminal.wait("code 0")
        terminal.press("exit\r")
        assert terminal.end() == 0
        assert terminal.echoes


@pytest.mark.parametrize(
    ("command", "shown", "number", "code"),
    [
        (["explore", LONG], "? keys", *CODES[0]),
        (["inspect", "river bank " * 200, "-m", MINILM], "loading", *CODES[1]),
        (["top", "-", "--lines"], "line 1: river bank", *CODES[2]),
    ],
    ids=["explore", "a model", "lines"],
)
def test_a_signal_ends_the_program_elsewhere(
    command: list, shown: str, number: signal.Signals | str, code: int
) -> None:
    with Terminal(*command, env={"PAGER": "less"}) as terminal:
        if "--lines" in command:
            terminal.press("river bank\n")
        terminal.wait(shown)
        assert ends(terminal, number) == code


def test_the_model_is_freed_before_the_pager_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    def weights() -> set[int]:
        return {id(each) for each in gc.get_objects() if type(each) is torch.nn.Parameter}  # a dead proxy has a type

    before, left, shown = weights(), [], []

    def leaf_through(text: str) -> None:
        left.append(weights() - before)
        shown.append(text)

    monkeypatch.setattr("attn_cli.cli.leaf_through", leaf_through)
    run = attn("inspect", "he sat on the river bank", "-m", MINILM, terminal=True, env=SCREEN | {"PAGER": "less"})
    assert (run.code, run.bytes) == (0, b"")
    assert "river" in shown[0]
    assert left == [set()]
