"""The explorer in a real pseudo-terminal: first paint, sizes, signals, bytes of a move, colours, and a bug."""

import re
import shutil
import signal
import sys
from pathlib import Path

import pytest

from attn_cli.explore.answer import opening
from tests.explore.playing import explorer, lines_of, played
from tests.explore.recordings import WIDE, prompt_of, recording_of
from tests.explore.terminal import Terminal
from tests.program import SHORT, attn, refused

TEXT = "he sat on the river bank"
ENTERED = b"\x1b[?1049h"  # a screen of its own
LEFT = b"\x1b[?1049l"  # the screen as it was before
LOADING = "from attn_cli.explore.loading import *\nwith keys_dropped():\n print('loading')\n signal.pause()"
PLANTED = """
import sys
from attn_cli.explore.panes import matrix
matrix.draw = lambda *_: 1 / 0
from attn_cli.cli import main
sys.argv = ["attn", "explore", "he sat"]
main()
"""


def test_a_walk_in_a_terminal() -> None:
    with Terminal("explore", TEXT) as terminal:
        terminal.wait("toy:minilm", "4 heads by entropy · none standing out", "? keys")
        terminal.press("j\r")
        terminal.wait("head 0.3 · weights · 6 x 6", "◀3 the")
        terminal.resize(40, 12)
        terminal.wait("head 0.3", "3 the -> ", "? keys", until=lambda text: len(text.splitlines()) == 12)
        terminal.resize(80, 24)
        terminal.wait("? keys", until=lambda text: len(text.splitlines()) == 24)
        terminal.press("\x1a")  # Ctrl-Z
        terminal.wait_until_stopped()
        assert LEFT in terminal.log and terminal.echoes
        terminal.screen.reset()
        terminal.signal(signal.SIGCONT)
        terminal.wait("head 0.3 · weights", "? keys")
        terminal.press("y")
        terminal.wait('attn matrix "he sat on the river bank" -l 0 -H 3 --color-scale sqrt')
        assert b"\x1b]52;c;" in terminal.log
        terminal.settle(1.0)  # idle, it writes nothing
        terminal.press("q")
        assert terminal.end() == 0
        assert terminal.log.rstrip().endswith(b"l")
        assert LEFT in terminal.log[-300:]


@pytest.mark.parametrize(("ends", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), ("\x03", 130)], ids=str)
def test_it_ends_in_order(ends: signal.Signals | str, code: int) -> None:
    with Terminal("explore", TEXT) as terminal:
        terminal.wait("? keys")
        terminal.press(ends) if isinstance(ends, str) else terminal.signal(ends)
        assert terminal.end() == code
        assert LEFT in terminal.log[-300:]


def test_a_signal_that_comes_before_the_first_picture_leaves_the_terminal_as_it_was() -> None:
    with Terminal("explore", TEXT) as terminal:
        while ENTERED not in terminal.log:
            assert terminal.read(SHORT), "it never took the screen"
        terminal.signal(signal.SIGTERM)
        assert terminal.end() == 143
        assert LEFT in terminal.log[-300:]


def test_while_it_loads_q_ends_it_and_other_keys_are_dropped() -> None:
    with Terminal(command=[sys.executable, "-c", LOADING]) as terminal:
        terminal.wait("loading")
        terminal.press("xj\r")
        terminal.settle()
        assert terminal.text.split() == ["loading"] and not terminal.echoes
        terminal.press("q")
        assert terminal.end() == 130 and terminal.echoes


def test_a_bug_is_a_line_on_a_terminal_that_is_itself_again() -> None:
    with Terminal(command=[sys.executable, "-c", PLANTED]) as terminal:
        terminal.wait("? keys")
        terminal.press("\r")
        assert terminal.end() == 70
        _, _, after = terminal.log.rpartition(LEFT)
        assert b"attn: a bug: ZeroDivisionError: division by zero" in after
        assert b"Traceback" not in after


@pytest.mark.parametrize(
    ("env", "coloured"), [({"NO_COLOR": "1"}, False), ({"TERM": "screen", "COLORTERM": ""}, True)], ids=str
)
def test_other_terminals(env: dict[str, str], coloured: bool) -> None:
    with Terminal("explore", TEXT, env=env) as terminal:
        terminal.wait("? keys")
        terminal.press("\r")
        terminal.wait("◀4 river", "query 4 river")
        terminal.settle()
        assert bool(re.search(rb"\x1b\[(?:[\d;]*;)?4[1-8][;m]", terminal.log)) == coloured  # codes of backgrounds
        terminal.press("q")
        assert terminal.end() == 0


def test_without_a_terminal_it_says_what_to_do() -> None:
    refused(attn("explore", TEXT), 2, "attn explore needs a terminal", "attn inspect prints")


@pytest.mark.parametrize("missing", [True, False])
def test_without_textual_or_on_a_dumb_terminal(missing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attn_cli.cli.explore._is_terminal", lambda: True)
    if missing:
        monkeypatch.setitem(sys.modules, "textual", None)
    run = attn("explore", TEXT, env={"TERM": "xterm" if missing else "dumb"})
    if missing:
        refused(run, 3, "needs the package textual", "attn-cli[explore]")
    else:
        refused(run, 2, "needs a terminal", "attn inspect")


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


def test_a_mistyped_recording_is_no_text(tmp_path: Path) -> None:
    recording_of(prompt_of(4)).save(tmp_path / "run.attn")
    with Terminal("explore", tmp_path / "rum.attn") as terminal:
        assert terminal.end() == 2
        said = terminal.text.replace("\n", "")
        assert "no file" in said and "run.attn?" in said


def shown(columns: int, *arguments: str) -> Terminal:
    """The terminal in which a command has ended."""
    with Terminal(*arguments, columns=columns, lines=60) as terminal:
        assert terminal.end() == 0
    return terminal


@pytest.mark.parametrize(("columns", "used"), [(40, 36), (200, 100)])
def test_the_width_of_the_terminal_is_used_and_no_line_wraps(columns: int, used: int) -> None:
    text = shown(columns, "inspect", "he sat on the river bank").text.splitlines()
    assert max(map(len, text)) >= used
    for number, word in enumerate(["he", "sat", "on", "the", "river", "bank"]):
        assert any(line.endswith(f" {number} {word}") for line in text)  # the row labels of the matrix


def test_a_bright_cell_for_the_largest_weight_and_a_dark_one_for_the_smallest() -> None:
    terminal = shown(80, "matrix", "river bank", "-H", "0")
    screen, text = terminal.screen, terminal.text.splitlines()
    row = next(y for y, line in enumerate(text) if line.endswith("0 river"))
    large, small = (sum(bytes.fromhex(screen.buffer[row][text[row].index(x)].bg)) for x in ("0.816", "0.184"))
    assert large > 1.5 * small


@pytest.mark.skipif(shutil.which("less") is None, reason="needs less")
def test_an_answer_taller_than_the_terminal_is_leafed_through_in_less() -> None:
    text = "he sat on the river bank and the bank lent him money for a house"
    pager = {"PAGER": "less", "LESS": "FRX"}
    with Terminal("top", text, "-H", "0-3", columns=80, lines=24, env=pager) as terminal:
        terminal.wait(text, "head 0")
        terminal.press("\x03")
        terminal.press(" ")
        terminal.wait("head 2")
        terminal.press("q")
        assert terminal.end() == 0
    assert b"head 3" not in terminal.log
