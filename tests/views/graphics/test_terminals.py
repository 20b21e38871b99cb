"""A terminal that shows pictures gets the image under its map; it is asked, and any other has the map alone."""

import base64
import io
import os
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyte
import pytest
from PIL import Image

from attn_cli.views.graphics import conversation
from tests.explore.terminal import Terminal
from tests.explore.test_tmux import Tmux
from tests.explore.test_tmux import tmux as tmux
from tests.program import attn, program, refused
from tests.views.graphics.answering import (
    ATTRIBUTES,
    CELL_SIZE,
    KITTY,
    NAME,
    AnsweringTerminal,
    iterm_pictures,
    kitty_pictures,
    sixel_pictures,
)
from tests.views.graphics.recordings import recorded_image

HEAD = ("-t", "day", "-H", "0.0")
DRAWN = re.compile(rb"\x1b7\x1b\[(\d+)A((?:\x1b_G[^\x1b]*\x1b\\)+|\x1bP[^\x1b]*\x1b\\|\x1b\]1337[^\a]*\a)\x1b8")
# Runs a command and tells how many keys are typed and not read, and which.
AFTERWARDS = """
import array, fcntl, os, subprocess, sys, termios
code = subprocess.run(sys.argv[1:]).returncode
settings = termios.tcgetattr(0)
echoes = bool(settings[3] & termios.ECHO and settings[3] & termios.ICANON)
settings[3] &= ~termios.ICANON
termios.tcsetattr(0, termios.TCSANOW, settings)
count = array.array("i", [0])
fcntl.ioctl(0, termios.FIONREAD, count)
print(f"ended {code}, echoes {echoes}, typed {os.read(0, count[0]) if count[0] else b''}")
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """3 x 4 patches, whose map has numbers."""
    return recorded_image(tmp_path_factory.mktemp("seen") / "small.attn", 3, 4)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 x 15 patches, whose map has colours alone."""
    return recorded_image(tmp_path_factory.mktemp("seen") / "large.attn", 12, 15)


def figure(file: Path, rows: int, columns: int, height: int, width: int) -> np.ndarray:
    """The picture under its cells as the figure has it, in so many pixels `[height, width, 3]`."""
    svg = attn("matrix", "-m", file, *HEAD, "-f", "svg").text
    (data,) = re.findall(r'base64,([^"]+)"', svg)
    below = Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB").resize((width, height), Image.Resampling.BOX)
    fills = re.findall(r'fill="#(\w{6})" fill-opacity="0.55" shape', svg)[: rows * columns]
    colours = np.array([[int(fill[at : at + 2], 16) for at in (0, 2, 4)] for fill in fills], np.uint8)
    film = Image.fromarray(colours.reshape(rows, columns, 3)).resize((width, height), Image.Resampling.NEAREST)
    return 0.45 * np.asarray(below, float) + 0.55 * np.asarray(film, float)


def picture_of(kind: str, log: bytes) -> np.ndarray:
    """The pixels of the one picture that was sent, of the size in cells that it says."""
    if kind == "kitty":
        ((keys, pixels),) = kitty_pictures(log)
        assert (keys["a"], keys["f"], keys["C"], keys["q"]) == ("T", "100", "1", "2")
        size = int(keys["c"]), int(keys["r"])
    elif kind == "iterm":
        ((keys, pixels),) = iterm_pictures(log)
        assert (keys["inline"], keys["preserveAspectRatio"]) == ("1", "0")
        size = int(keys["width"]), int(keys["height"])
    else:
        ((colors, pixels),) = sixel_pictures(log)
        assert colors <= {"sixel": 256, "vt340": 16}[kind]
        size = pixels.shape[1] // CELL_SIZE[0], pixels.shape[0] // CELL_SIZE[1]
    assert pixels.shape == (size[1] * CELL_SIZE[1], size[0] * CELL_SIZE[0], 3)
    return pixels


@pytest.mark.parametrize(("kind", "off"), [("kitty", 1), ("iterm", 1), ("sixel", 4), ("vt340", 25)])
def test_the_picture_is_that_of_the_figure(kind: str, off: float, large: Path) -> None:
    """In the place of the cells, beside the numbers of its rows; a few lines of it scroll away on a low terminal."""
    with AnsweringTerminal(kind, "matrix", "-m", large, *HEAD, lines=60) as terminal:
        assert terminal.end() == 0
        pixels = picture_of(kind, terminal.log)
        assert np.abs(pixels - figure(large, 12, 15, *pixels.shape[:2])).mean() < off
        assert pixels.shape[:2] == (12 * CELL_SIZE[1], 30 * CELL_SIZE[0])
        assert terminal.echoes
        before = DRAWN.split(terminal.log)[0]
    screen = pyte.Screen(80, 60)
    pyte.ByteStream(screen).feed(re.sub(rb"\x1b_G[^\x1b]*\x1b\\", b"", before))
    assert int(DRAWN.findall(terminal.log)[0][0]) == 12
    rows = [screen.display[screen.cursor.y - 12 + row].rstrip() for row in range(12)]
    assert rows == [f"{'':31}{row}" for row in range(12)] and screen.cursor.x == 0


def test_numbers_stay_above_the_picture(small: Path) -> None:
    with AnsweringTerminal("kitty", "matrix", "-m", small, *HEAD) as terminal:
        assert terminal.end() == 0
    pixels = picture_of("kitty", terminal.log)
    assert np.abs(pixels - figure(small, 3, 4, *pixels.shape[:2])).mean() < 1
    words = re.sub(r"\x1b\[[\d;]*m", "", DRAWN.sub(b"", terminal.log).decode()).splitlines()
    cells = [line for line in attn("matrix", "-m", small, *HEAD).lines if re.fullmatch(r"(\s+0\.\d{3}){4} \d", line)]
    assert len(cells) == 3 and set(cells) < set(words)


@pytest.mark.parametrize("command", ["inspect", "heads"])
def test_the_overview_has_what_patches_receive_on_the_picture(command: str, large: Path) -> None:
    with AnsweringTerminal("kitty", command, "-m", large, lines=200) as terminal:
        assert terminal.end() == 0
    assert len(kitty_pictures(terminal.log)) == bool(terminal.asked) == (command == "inspect")


@pytest.mark.parametrize("kind", ["xterm", "konsole", "mute"])
def test_any_other_terminal_has_the_map_alone(kind: str, small: Path) -> None:
    """Nothing of question and answer is left on the screen or among what is typed."""
    command = [sys.executable, "-c", AFTERWARDS, *program("matrix", "-m", small, *HEAD)]
    screens = []
    for setting in "auto", "blocks":
        with AnsweringTerminal(kind, command=command, env={"ATTN_GRAPHICS": setting}) as terminal:
            terminal.wait("ended 0, echoes True, typed b''")
            screens.append(terminal.text)
        assert not DRAWN.search(terminal.log)
    assert bool(re.search(r"0\.\d{3}", screens[0]))
    assert screens[0].replace("Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA", "") == screens[1]


@pytest.mark.parametrize("kind", ["kitty", "xterm", "mute"])
@pytest.mark.parametrize("ahead", [True, False], ids=["before", "meanwhile"])
def test_what_is_typed_stays_typed(kind: str, ahead: bool, small: Path) -> None:
    if not ahead and not can_type():
        pytest.skip("this system forbids to type for a person: sysctl dev.tty.legacy_tiocsti")
    command = [sys.executable, "-c", AFTERWARDS, *program("matrix", "-m", small, *HEAD)]
    typed = b"" if ahead else b"l\x1b[As"
    with AnsweringTerminal(kind, command=command, typed=typed) as terminal:
        if ahead:
            terminal.press("ls")
        terminal.wait(f"ended 0, echoes True, typed {b'ls' if ahead else typed}")
        assert bool(terminal.asked) != ahead
        assert bool(kitty_pictures(terminal.log)) == (kind == "kitty" and not ahead)


def can_type() -> bool:
    """True if a process may type on its terminal."""
    code = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSTI, b'x'); print('it may')"
    with Terminal(command=[sys.executable, "-c", code]) as terminal:
        terminal.end()
        return b"it may" in terminal.log


@pytest.mark.parametrize(
    "env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": "linux"}, {"CI": "true"}, {"ATTN_GRAPHICS": "blocks"},
            {"TERM_PROGRAM": "Apple_Terminal"}], ids=str
)  # fmt: skip
def test_who_wants_words_is_not_asked(env: dict[str, str], small: Path) -> None:
    with AnsweringTerminal("kitty", "matrix", "-m", small, *HEAD, env=env) as terminal:
        assert terminal.end() == 0
    assert not terminal.asked and not kitty_pictures(terminal.log)


def test_a_pager_a_pipe_and_a_file_get_no_picture(small: Path, tmp_path: Path) -> None:
    line = shlex.join(program("matrix", "-m", small, *HEAD))
    for words, asks in ((f"{line} | cat", False), (f"{line} -o {tmp_path}/a.txt -f terminal", False), (line, True)):
        pager = {"ATTN_PAGER": "cat -A" if asks else ""}
        with AnsweringTerminal("kitty", command=["sh", "-c", words], lines=10, env=pager) as terminal:
            assert terminal.end() == 0
        assert bool(terminal.asked) == asks and not kitty_pictures(terminal.log)


def test_without_an_image_nothing_is_asked() -> None:
    with AnsweringTerminal("kitty", "matrix", "river bank", "-H", "0") as terminal:
        assert terminal.end() == 0
    assert not terminal.asked


@pytest.mark.parametrize("kind", ["kitty", "iterm", "sixel"])
def test_a_protocol_can_be_chosen(kind: str, large: Path) -> None:
    """The terminal isn't asked; a cell has the usual size, for nobody says another."""
    with AnsweringTerminal("mute", "matrix", "-m", large, *HEAD, env={"ATTN_GRAPHICS": kind}) as terminal:
        assert terminal.end() == 0
    assert not terminal.asked
    found: dict[str, Callable[[bytes], list[tuple[object, np.ndarray]]]] = {
        "kitty": kitty_pictures, "iterm": iterm_pictures, "sixel": sixel_pictures}  # type: ignore[dict-item]  # fmt: skip
    ((_, pixels),) = found[kind](terminal.log)
    assert pixels.shape == (12 * 20, 30 * 10, 3)


@pytest.mark.parametrize(("kind", "said"), [("iterm", "pictures: iterm"), ("xterm", "pictures: half blocks")])
def test_attn_env_tells_what_the_terminal_said(kind: str, said: str) -> None:
    with AnsweringTerminal(kind, "env", lines=60) as terminal:
        assert terminal.end() == 0
        assert said in terminal.text


def test_a_wrong_choice_is_an_error() -> None:
    run = attn("matrix", "river bank", env={"ATTN_GRAPHICS": "vga"})
    refused(run, 2, "ATTN_GRAPHICS: graphics is vga", "one of auto, blocks, kitty, iterm, sixel")


@pytest.mark.parametrize(("features", "shows"), [("256,sixel,title", True), ("256,title", False)])
def test_in_tmux_sixels_count_where_the_terminal_around_it_shows_them(
    features: str, shows: bool, small: Path, tmp_path: Path
) -> None:
    """And kitty's question is not asked, which tmux takes for a title."""
    (tmp_path / "tmux").write_text(f"#!/bin/sh\necho {features}\n")
    (tmp_path / "tmux").chmod(0o755)
    env = {"TMUX": "/tmp/tmux-0/default,1,0", "TERM": "tmux-256color", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with AnsweringTerminal("sixel", "matrix", "-m", small, *HEAD, env=env) as terminal:
        assert terminal.end() == 0
    assert terminal.asked[:2] == [NAME, ATTRIBUTES] and KITTY not in terminal.asked
    assert bool(sixel_pictures(terminal.log)) == shows


def test_a_real_tmux_shows_the_map_and_keeps_its_title(small: Path, tmux: Tmux) -> None:
    line = shlex.join(program("matrix", "-m", small, *HEAD))
    tmux.run(
        "new-session", "-d", "-x", "80", "-y", "30", f"env -u CI ATTN_PAGER= {line}; echo it ended with $?; read x"
    )
    before = tmux.run("display-message", "-p", "#{pane_title}")
    screen = tmux.wait("it ended with 0")
    assert re.search(r"0\.\d{3} +0\.\d{3} +0\.\d{3} +0\.\d{3} 0", screen) and "Gi=31" not in screen
    assert tmux.run("display-message", "-p", "#{pane_title}") == before


def test_where_no_terminal_is_nothing_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(conversation, "_TERMINAL", tmp_path / "none")
    assert conversation.answers("?") is None
