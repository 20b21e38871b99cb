"""The explorer in a real pseudo-terminal: first paint, sizes, signals, bytes of a move, colours, and a bug."""

import shlex
import signal
import sys
from pathlib import Path

import pytest

from attn_cli.explore.answer import opening
from tests.explore.playing import explorer, lines_of, played
from tests.explore.recordings import WIDE, prompt_of, recording_of
from tests.explore.terminal import Terminal
from tests.program import SHORT, attn, program, refused

TEXT = "he sat on the river bank"
ENTERED = b"\x1b[?1049h"  # a screen of its own
LEFT = b"\x1b[?1049l"  # the screen as it was before
PLANTED = """
import sys
from attn_cli.explore.panes import matrix
def broken(*arguments): raise ZeroDivisionError("planted")
matrix.draw = broken
from attn_cli.cli import main
sys.argv = ["attn", "explore", "he sat"]
main()
"""


def test_a_walk_in_a_terminal() -> None:
    with Terminal("explore", TEXT) as terminal:
        terminal.wait("toy:minilm · 4 heads by entropy (bits) · 6 tokens", "? keys")
        terminal.press("j\r")
        terminal.wait("layer 0 head 1 · weights · 6 x 6", "◀5 bank")
        terminal.resize(40, 12)
        terminal.wait(
            "layer 0 head 1", "5 bank -> 5 bank · weight", "? keys", until=lambda text: len(text.splitlines()) == 12
        )
        terminal.resize(80, 24)
        terminal.wait("? keys", until=lambda text: len(text.splitlines()) == 24)
        terminal.press("\x1a")  # Ctrl-Z
        terminal.wait_until_stopped()
        assert LEFT in terminal.log and terminal.echoes
        terminal.screen.reset()
        terminal.signal(signal.SIGCONT)
        terminal.wait("layer 0 head 1 · weights", "? keys")
        terminal.press("y")
        terminal.wait('attn matrix "he sat on the river bank" -l 0 -H 1 --color-scale sqrt')
        assert b"\x1b]52;c;" in terminal.log
        terminal.settle(1.0)  # idle, it writes nothing
        terminal.press("q")
        assert terminal.end() == 0
        assert terminal.log.rstrip().endswith(b"l")
        assert LEFT in terminal.log[-300:]


@pytest.mark.parametrize(("ends", "code"), [(signal.SIGTERM, 143), ("\x03", 130)], ids=str)
def test_it_ends_in_order(ends: signal.Signals | str, code: int) -> None:
    with Terminal("explore", TEXT) as terminal:
        terminal.wait("? keys")
        terminal.press(ends) if isinstance(ends, str) else terminal.signal(ends)
        assert terminal.end() == code
        assert LEFT in terminal.log[-300:]


@pytest.mark.parametrize("number", [signal.SIGTERM])
def test_a_signal_that_comes_before_the_first_picture_leaves_the_terminal_as_it_was(number: signal.Signals) -> None:
    with Terminal("explore", TEXT) as terminal:
        while ENTERED not in terminal.log:
            assert terminal.read(SHORT), "it never took the screen"
        terminal.signal(number)
        assert terminal.end() == 128 + number
        assert LEFT in terminal.log[-300:]


def test_a_bug_is_a_line_on_a_terminal_that_is_itself_again() -> None:
    with Terminal(command=[sys.executable, "-c", PLANTED]) as terminal:
        terminal.wait("? keys")
        terminal.press("\r")
        assert terminal.end() == 70
        _, _, after = terminal.log.rpartition(LEFT)
        assert b"attn: a bug: ZeroDivisionError: planted" in after
        assert b"Traceback" not in after


def colours(log: bytes) -> bool:
    return any(f"\x1b[{number}".encode() in log or f";{number}".encode() in log for number in ("38;", "48;"))


@pytest.mark.parametrize(
    ("env", "coloured"),
    [
        ({"NO_COLOR": "1"}, False),
        ({"TERM": "screen", "COLORTERM": ""}, True),
    ],
    ids=str,
)
def test_other_terminals(env: dict[str, str], coloured: bool) -> None:
    with Terminal("explore", TEXT, env=env) as terminal:
        terminal.wait("? keys")
        terminal.press("\r")
        terminal.wait("◀5 bank", "query 5 bank")
        terminal.settle()
        sixteen = any(f"[{number}".encode() in terminal.log or f";{number}m".encode() in terminal.log
                      for number in range(41, 47))  # fmt: skip
        assert (colours(terminal.log) or sixteen) == coloured
        terminal.press("q")
        assert terminal.end() == 0


def test_without_a_terminal_it_says_what_to_do() -> None:
    refused(attn("explore", TEXT), 2, "attn explore needs a terminal", "attn inspect prints")


@pytest.mark.parametrize("missing", [True, False])
def test_without_textual_or_on_a_dumb_terminal(missing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"attn_cli.cli.explore.{'find_spec' if missing else '_is_terminal'}"
    monkeypatch.setattr("attn_cli.cli.explore._is_terminal", lambda: True)
    if missing:
        monkeypatch.setattr(name, lambda module: None)
    run = attn("explore", TEXT, env={"TERM": "xterm" if missing else "dumb"})
    refused(
        run, 2, "needs textual" if missing else "needs a terminal", "attn-cli[explore]" if missing else "attn inspect"
    )


def test_a_move_writes_the_lines_that_change() -> None:
    with Terminal("explore", TEXT, columns=200, lines=60) as terminal:
        terminal.wait("? keys")
        terminal.settle()
        start = terminal.written
        terminal.press("2k")
        terminal.wait("query 4 river")
        terminal.settle()
        assert 0 < terminal.written - start < 9000  # a whole screen is 13,000


def test_after_any_keys_the_terminal_shows_the_last_picture_of_wide_characters(tmp_path: Path) -> None:
    wide = recording_of(prompt_of(40, words=WIDE))
    wide.save(tmp_path / "wide.attn")
    keys = "23hlkjhhkk4jjj1j3kkkk]hhh2z3kk"
    with Terminal("explore", tmp_path / "wide.attn") as terminal:
        terminal.wait("? keys")
        for key in keys:
            terminal.press(key)
            terminal.settle(0.1)
        app = explorer(wide)
        app.view = app.scene.settled(opening(app.scene))
        picture = [line.rstrip() for line in lines_of(played(app, keys))]
        terminal.wait(until=lambda text: text.splitlines() == picture)


def test_a_text_from_standard_input_leaves_the_keys_to_the_terminal() -> None:
    line = f"echo he sat on the river bank | {shlex.join(program('explore'))}"
    with Terminal(command=["sh", "-c", line]) as terminal:
        terminal.wait("6 tokens", "? keys")
        terminal.press("2")
        terminal.wait("◀5 bank")
        terminal.press("q")
        assert terminal.end() == 0


def test_a_mistyped_recording_is_no_text(tmp_path: Path) -> None:
    recording_of(prompt_of(4)).save(tmp_path / "run.attn")
    with Terminal("explore", tmp_path / "rum.attn") as terminal:
        assert terminal.end() == 2
        said = terminal.text.replace("\n", "")
        assert "no file" in said and "run.attn?" in said
