"""Nothing is cut away: what is taller than a terminal is in the pager, whole, and everywhere else it is printed."""

import gc
import shlex
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.explore.terminal import Terminal
from tests.program import Run, attn, program
from tests.real_models import MINILM
from tests.views.test_golden import LONG, SENTENCE

COMMANDS = {
    "inspect": ["inspect", LONG],
    "matrix": ["matrix", LONG],
    "top": ["top", LONG],
    "plane": ["plane", SENTENCE, "the bank gave me a loan"],
    "walk": ["compute", SENTENCE, "--projections", "3", "--heads", "2", "--steps", "--token", "bank"],
    "compute": ["compute", "--q", "q.npy"],
}
TALL = ["top", LONG]
SCREEN = {"COLUMNS": "80", "LINES": "24", "TERM": "xterm-256color"}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("q.npy", np.random.default_rng(0).normal(size=(2, 2, 60, 8)))


def paged(*arguments: str, pager: str = "cat > paged.txt", **options: object) -> Run:
    """A command on a terminal of 24 lines with a pager that writes what it gets into a file."""
    env = SCREEN | {"PAGER": pager} | options.pop("env", {})  # type: ignore[operator]
    return attn(*arguments, env=env, **({"terminal": True} | options))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_low_terminal_gets_all_that_a_high_one_does(name: str) -> None:
    high, low = (attn(*COMMANDS[name], terminal=True, env=SCREEN | {"LINES": lines}) for lines in ("1000", "9"))
    assert low.code == high.code == 0
    assert [line for line in low.lines if "LINES" not in line] == [line for line in high.lines if "LINES" not in line]
    assert len(low.lines) > 8
    assert "… more" not in low.text and "lines more" not in low.text


def test_a_tall_answer_is_in_the_pager_whole() -> None:
    run = paged(*TALL)
    assert (run.code, run.bytes) == (0, b"")
    printed = paged(*TALL, pager="cat")
    assert Path("paged.txt").read_bytes() == printed.bytes
    assert len(printed.lines) > 40 and "next: attn" in printed.lines[-1]


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (["nearest", "bank", "-k", "3"], {}),
        ([*TALL, "--lines"], {}),
        (["top", "-"], {"stdin": LONG.encode()}),
        (TALL, {"terminal": False}),
        ([*TALL, "-f", "json"], {}),
        (TALL, {"pager": ""}),
        (TALL, {"pager": "cat"}),
        (TALL, {"env": {"TERM": "dumb"}}),
        (TALL, {"pager": "no-such-pager-anywhere"}),
    ],
    ids=["short", "--lines", "a pipe in", "a pipe out", "json", "none", "cat", "dumb", "missing"],
)
def test_all_else_is_printed(arguments: list[str], options: dict[str, object]) -> None:
    run = paged(*arguments, **options)  # type: ignore[arg-type]
    assert run.code == 0, run.errors
    assert run.bytes
    assert not Path("paged.txt").exists()


def test_the_exit_code_is_that_of_the_command_however_the_pager_is_left() -> None:
    q = np.random.default_rng(1).normal(size=(30, 8, 4))
    np.save("q.npy", q)
    np.save("wrong.npy", np.zeros_like(q))
    check = ["compute", "--q", "q.npy", "--expect", "wrong.npy"]
    assert attn(*check).code == 1
    for command in ("cat > paged.txt", "head -c 1 > paged.txt", "cat > paged.txt; exit 3"):
        run = paged(*check, pager=command)
        assert (run.code, run.bytes, run.errors) == (1, b"", "")
        assert Path("paged.txt").stat().st_size


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
    [("less -P a-prompt-of-its-own", *CODES[0]), ("true; sleep 98765; true", *CODES[0])],
)
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
        (["inspect", "river bank " * 200, "-m", MINILM], "loading", *CODES[1]),
        (["top", "-", "--lines"], "line 1: river bank", *CODES[2]),
    ],
    ids=["a model", "lines"],
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
