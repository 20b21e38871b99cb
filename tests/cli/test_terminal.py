"""A real terminal: what a person sees, in colour and in width, and what happens at Ctrl-C and when a reader leaves."""

import shutil

import pexpect
import pyte
import pytest

from tests.program import SHORT, environment, heeding_signals, program

COLORS = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}


def open_terminal(columns: int, *arguments: str, rows: int = 60, **variables: str) -> pexpect.spawn:
    command, *rest = program(*arguments)
    env = environment(**(COLORS | variables))  # type: ignore[arg-type]
    size = (rows, columns)
    return pexpect.spawn(command, rest, dimensions=size, env=env, timeout=SHORT, preexec_fn=heeding_signals)


def shown(columns: int, *arguments: str, rows: int = 60, **variables: str) -> pyte.Screen:
    running = open_terminal(columns, *arguments, rows=rows, **variables)
    running.expect(pexpect.EOF)
    running.close()
    assert running.exitstatus == 0
    screen = pyte.Screen(columns, rows)
    pyte.ByteStream(screen).feed(running.before)
    return screen


def lines(screen: pyte.Screen) -> list[str]:
    return [line.rstrip() for line in screen.display]


@pytest.mark.parametrize(("columns", "used"), [(40, 36), (200, 100)])
def test_the_width_of_the_terminal_is_used_and_no_line_wraps(columns: int, used: int) -> None:
    text = lines(shown(columns, "inspect", "he sat on the river bank"))
    assert max(map(len, text)) >= used
    for number, word in enumerate(["he", "sat", "on", "the", "river", "bank"]):
        assert any(line.endswith(f" {number} {word}") for line in text)  # the row labels of the matrix


def test_a_bright_cell_for_the_largest_weight_and_a_dark_one_for_the_smallest() -> None:
    screen = shown(80, "matrix", "river bank", "-H", "0")
    text = lines(screen)
    row = next(y for y, line in enumerate(text) if line.endswith("0 river"))
    large, small = (screen.buffer[row][x].bg for x in (text[row].index("0.816"), text[row].index("0.184")))

    def brightness(color: str) -> int:
        return sum(int(color[i : i + 2], 16) for i in (0, 2, 4))

    assert brightness(large) > 1.5 * brightness(small)


@pytest.mark.skipif(shutil.which("less") is None, reason="needs less")
def test_an_answer_taller_than_the_terminal_is_leafed_through_in_less() -> None:
    """Ctrl-C is the pager's while it is open; the next page comes when it is asked for, and q ends with exit code 0."""
    text = "he sat on the river bank and the bank lent him money for a house"
    tall = open_terminal(80, "top", text, "-H", "0-3", rows=24, PAGER="less", LESS="FRX")
    tall.expect(text)
    tall.expect_exact("head 0")
    tall.sendintr()
    tall.send(" ")
    tall.expect_exact("head 2")
    tall.send("q")
    tall.expect(pexpect.EOF)
    tall.close()
    assert (tall.exitstatus, tall.signalstatus) == (0, None)
    assert b"head 3" not in tall.before
