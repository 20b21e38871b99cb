"""Time and memory of a run: refused before it starts, printed with -v, shown while it runs."""

import io
import re
import time
from pathlib import Path

import numpy as np
import pytest

from attn_cli.cli.kit.stderr import Progress
from attn_cli.sources import memory
from tests.program import attn, refused

LIMIT = 4


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: 1000)


@pytest.mark.usefixtures("little_memory")
def test_whole_matrices_that_do_not_fit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "he sat on the river bank"
    words = ["4 matrices of 6 x 6", "free", "--token"]  # 4 heads x 6 x 6 x weights and scores x 4 bytes = 1,152
    refused(attn("matrix", text, "-o", "a.npz"), LIMIT, *words)
    np.save("q.npy", np.ones((30, 2), np.float32))
    refused(attn("compute", "--q", "q.npy", "-o", "a.json"), LIMIT, "3 matrices of 30 x 30", "-f npy")
    assert [file.name for file in tmp_path.iterdir()] == ["q.npy"]


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("less", [("-H", "0"), ("--mean",), ("--token", "bank"), ("-f", "terminal")], ids=" ".join)
def test_what_is_suggested_then_fits(less: tuple[str, ...]) -> None:
    assert attn("matrix", "he sat on the river bank", "-f", "json", *less).code == 0


def test_verbose_says_length_memory_and_time() -> None:
    start = time.monotonic()
    run = attn("matrix", "he sat on the river bank", "-v", "-f", "json")
    elapsed = time.monotonic() - start
    assert run.code == 0
    loaded, length, ran = run.errors.splitlines()
    assert loaded.startswith("attn: loaded in ")
    assert length.startswith("attn: 6 tokens · 4 matrices of 6 x 6 take 1.15 KB")
    said = re.fullmatch(r"attn: ran in (\d+\.\d\d) s, peak memory [\d.]+ [MG]B", ran)
    assert said is not None
    assert 0 <= float(said[1]) <= elapsed + 0.005  # rounded to hundredths
    assert attn("matrix", "he sat on the river bank", "-v", "-q", "-f", "json").errors == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """The terminal that standard error is from now on."""
    terminal = Terminal()
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", terminal)
    return terminal


def seen(terminal: Terminal) -> str:
    """All that a terminal was given, without its codes."""
    return re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "\n", terminal.getvalue())


def test_a_run_shows_a_line_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with Progress(layers=30, texts=1, earlier_texts=0, quiet=False, verbose=False) as running:
        for _ in range(3):
            running.step()
            assert running._line is not None
            running._line.refresh()
    assert "layer 1 of 30" in seen(terminal) and "layer 4 of 30" in seen(terminal)
    assert terminal.getvalue().endswith("\x1b[2K")  # the line is blanked last


def test_a_pipe_and_quiet_show_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    for stream, quiet in ((io.StringIO(), False), (terminal, True)):
        monkeypatch.setattr("sys.stderr", stream)
        with Progress(layers=30, texts=1, earlier_texts=0, quiet=quiet, verbose=False) as running:
            running.step()
        assert stream.getvalue() == ""
