"""The explorer in tmux, a terminal of its own kind: what it shows, in colour and without, and what it leaves."""

import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.program import SHORT, environment, program

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
TEXT = "he sat on the river bank"


class Tmux:
    """A server of tmux with one pane of 80 x 24."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket

    def run(self, *words: str) -> str:
        command = ["tmux", "-S", str(self.socket), "-f", "/dev/null", *words]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=SHORT, env=environment(), check=False
        ).stdout

    def start(self, **variables: str) -> None:
        """The explorer between two lines of a shell, which then waits."""
        settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
        line = f"echo before; {settings} {shlex.join(program('explore', TEXT))}; echo it ended with $?; read wait"
        self.run("new-session", "-d", "-x", "80", "-y", "24", line)

    def wait(self, *words: str) -> str:
        end = time.monotonic() + SHORT
        while not all(word in (screen := self.run("capture-pane", "-p")) for word in words):
            assert time.monotonic() < end, f"{words} never came\n{screen}"
            time.sleep(0.05)
        return screen

    def press(self, *keys: str) -> None:
        self.run("send-keys", *keys)


@pytest.fixture
def tmux(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tmux]:
    server = Tmux(tmp_path_factory.mktemp("t") / "s")  # a short name: sockets have no long ones
    yield server
    server.run("kill-server")


@pytest.mark.parametrize("variables", [{}, {"NO_COLOR": "1"}], ids=str)
def test_a_walk_in_tmux(variables: dict[str, str], tmux: Tmux) -> None:
    tmux.start(**variables)
    tmux.wait("toy:minilm · 4 heads by entropy (bits) · 6 tokens", "? keys")
    tmux.press("j", "Enter")
    screen = tmux.wait("layer 0 head 1 · weights", "◀5 bank", "? keys")
    assert "before" not in screen
    behind = re.findall(r"\x1b\[(?:[\d;]*;)?(4[1-8])\b", tmux.run("capture-pane", "-p", "-e"))  # codes of backgrounds
    assert bool(behind) != bool(variables)
    tmux.run("resize-window", "-x", "60", "-y", "20")
    tmux.wait("layer 0 head 1", "score 1.20\nenter open")  # the rank has no room any more
    tmux.press("q")
    assert tmux.wait("it ended with 0").split("\n")[:2] == ["before", "it ended with 0"]
    assert tmux.run("display-message", "-p", "#{cursor_flag} #{alternate_on} #{mouse_any_flag}").split() == [
        "1",
        "0",
        "0",
    ]


def test_a_closed_terminal_ends_it(tmux: Tmux, tmp_path: Path) -> None:
    tmux.run("new-session", "-d", "-x", "80", "-y", "24", "sh -i")
    line = f"{shlex.join(program('explore', TEXT))} & echo $! > {tmp_path}/pid; fg"
    tmux.run("send-keys", line, "Enter")
    tmux.wait("? keys")
    number = int((tmp_path / "pid").read_text())
    tmux.run("kill-session")
    end = time.monotonic() + SHORT
    while is_running(number):
        assert time.monotonic() < end, "it outlived its terminal"
        time.sleep(0.05)


def is_running(number: int) -> bool:
    """True if a process is running; a zombie is not."""
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
