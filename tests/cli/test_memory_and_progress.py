"""Time and memory of a run: refused before it starts, printed with -v, shown while it runs."""

import io
import re
import threading
import time
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from attn_cli.cli.kit.options import output
from attn_cli.cli.kit.options.output import OutputOptions
from attn_cli.cli.kit.options.text_command import TextCommandOptions
from attn_cli.cli.kit.run.plan import CommandPlan
from attn_cli.cli.kit.run.read_text import TextReader
from attn_cli.cli.kit.stderr import progress
from attn_cli.cli.kit.stderr.progress import Progress, running_model
from attn_cli.cli.kit.stderr.status_line import StatusLine
from attn_cli.errors import InputError
from attn_cli.sources import memory
from attn_cli.views.writers.page import PageView
from tests.program import SHORT, attn, refused

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
    refused(attn("compute", "--q", "q.npy", "-o", "a.json"), LIMIT, "2 matrices of 30 x 30", "-f npy")
    assert [file.name for file in tmp_path.iterdir()] == ["q.npy"]


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(
    "less", [("-H", "0"), ("--mean",), ("--token", "bank"), ("-f", "terminal"), ("--weights",)], ids=" ".join
)
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


def test_bytes_in_words_follow_the_machine() -> None:
    free = memory.free_memory()
    assert free is None or 10**8 < free < 10**14


class Clock:
    """Seconds that pass when told to."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    monkeypatch.setenv("COLUMNS", "40")
    return clock


def test_a_slow_run_shows_a_line_that_goes_away(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with Progress(layers=30, texts=1, earlier_texts=0, quiet=False, verbose=False) as running:
        for seconds in (9.0, 2.0, 2.0):  # the first, which may be slow, says nothing of the others
            clock.now += seconds
            running.step()
    parts = terminal.getvalue().split("\r")
    lines = ["layer 1 of 30", "layer 2 of 30 · 56 s left", "layer 3 of 30 · 54 s left"]
    assert [part.rstrip() for part in parts] == ["", *(line for line in lines for _ in range(2)), "", ""]
    assert parts[2::2] == [*lines, ""]  # the cursor stays at the end, and a terminal's ^C is on the same line
    assert max(map(len, parts)) < 40


def test_a_note_stands_on_a_line_of_its_own(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a terminal shows it, where a status would be left before the note, or behind it."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with Progress(4, 2, 0, quiet=False, verbose=True, noun="step") as running:
        for _ in range(3):
            clock.now += 1.0
            running.step()
    assert _as_shown(terminal.getvalue())[0] == "attn: the first step took 2.00 s, all"


def _as_shown(written: str) -> list[str]:
    """The lines of a terminal, on which a text that follows a carriage return covers what is there."""
    shown = []
    for line in written.split("\n"):
        cells = ""
        for part in line.split("\r"):
            cells = part + cells[len(part) :]
        shown.append(cells.rstrip())
    return shown


def test_a_run_whose_layers_are_not_counted_says_so_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, shown = Terminal(), threading.Event()
    real = StatusLine.set
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(progress, "_FIRST_LINE", 0.001)
    monkeypatch.setattr(StatusLine, "set", lambda line, text: (real(line, text), shown.set()))
    with running_model(quiet=False):
        assert shown.wait(SHORT)
    assert "running the model" in terminal.getvalue()
    assert _as_shown(terminal.getvalue()) == [""]
    terminal.truncate(0)
    monkeypatch.setattr(progress, "_FIRST_LINE", float(SHORT))
    with running_model(quiet=False):
        pass
    assert terminal.getvalue().strip("\0") == ""


def test_a_drawing_says_so_after_a_while(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    terminal, shown = Terminal(), threading.Event()
    real = StatusLine.set
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(output, "_SILENT", 0.001)
    monkeypatch.setattr(StatusLine, "set", lambda line, text: (real(line, text), shown.set()))
    monkeypatch.setattr(PageView, "close", lambda view: shown.wait(SHORT) or pytest.fail("nothing was said"))
    with OutputOptions(output=str(tmp_path / "x.svg")).view():
        pass
    assert "drawing svg" in terminal.getvalue()
    assert _as_shown(terminal.getvalue()) == [""]


def test_what_comes_last_counts_for_what_it_is_worth(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with Progress(4, 1, 0, quiet=False, verbose=False, noun="step", last=(2, 3.0)) as running:
        for seconds in (1.0, 1.0, 3.0, 3.0):
            clock.now += seconds
            running.step()
    lines = [part.strip() for part in terminal.getvalue().split("\r")]
    for line in ("step 1 of 4", "step 2 of 4 · 6 s left", "step 3 of 4 · 3 s left", "step 4 of 4"):
        assert line in lines


def test_a_long_first_layer_is_told_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, shown = Terminal(), threading.Event()
    real = StatusLine.set
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(progress, "_FIRST_LINE", 0.0)
    monkeypatch.setattr(StatusLine, "set", lambda line, text: (real(line, text), shown.set()))
    with Progress(layers=30, texts=1, earlier_texts=2, quiet=False, verbose=False):
        assert shown.wait(SHORT)
    assert terminal.getvalue().startswith("\rtext 3 · layer 1 of 30  ")  # and removed at the end


def test_a_quick_run_a_pipe_and_quiet_show_nothing(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, seconds, quiet in ((Terminal(), 0.01, False), (io.StringIO(), 2.0, False), (Terminal(), 2.0, True)):
        monkeypatch.setattr("sys.stderr", stream)
        with Progress(layers=30, texts=1, earlier_texts=0, quiet=quiet, verbose=False) as running:
            for _ in range(30):
                clock.now += seconds
                running.step()
        assert stream.getvalue() == ""


def test_many_texts_are_counted(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with Progress(layers=2, texts=8, earlier_texts=16, quiet=False, verbose=False) as running:
        for _ in range(16):
            clock.now += 1.0
            running.step()
    assert "text 17 · layer 1 of 2 · " in terminal.getvalue()
    assert "layer 2 of 2" in terminal.getvalue()


def test_while_a_model_writes_a_terminal_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr("sys.stderr", terminal)
    source = mock.Mock(batch_size=1)

    def read(*_: object) -> None:
        source.on_token.call_args.args[0](3)
        raise InputError("it can't", "")

    source.read.side_effect = read
    for quiet in (False, True):
        with pytest.raises(InputError):
            options = TextCommandOptions(generate=8, quiet=quiet)
            TextReader(options, source, CommandPlan(mock.Mock())).read(0, "a")
    lines = [line.rstrip() for line in terminal.getvalue().split("\r")]
    assert list(dict.fromkeys(line for line in lines if line)) == ["writing token 3 of up to 8"]
