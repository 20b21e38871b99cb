"""Behaviour of whole processes: pipes, closed streams, full disks, signals."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import attn_cli
from tests.program import SHORT, environment, heeding_signals, process, program, refused


def started(*arguments: object, **more: object) -> subprocess.Popen[bytes]:
    """The program at work, with pipes for all three streams."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environment()}
    return subprocess.Popen(program(*arguments), **pipes | more)  # type: ignore[call-overload,no-any-return]


LONG = b"river bank\n" * 3000  # thousands of answers: far more than a pipe holds, and seconds of work


@pytest.mark.parametrize("arguments", [["top"], ["nearest", "-f", "csv"]], ids=" ".join)
def test_an_answer_is_out_before_the_next_line_comes(arguments: list[str]) -> None:
    with started(*arguments, "--lines") as run:
        assert run.stdin and run.stdout
        patience = threading.Timer(SHORT, run.kill)
        patience.start()
        run.stdin.write(b"river\n")
        run.stdin.flush()
        first = os.read(run.stdout.fileno(), 2**16)  # waits; it is empty where the program was killed
        patience.cancel()
        run.stdin.close()
        rest = run.stdout.read()
    assert b"river" in first or b'"entropy_bits"' in first
    assert run.returncode == 0, rest


@pytest.mark.parametrize("arguments", [["top", "--lines", "--json"], ["inspect", "--lines"]])
def test_a_reader_that_has_enough_ends_the_run_quietly(arguments: list[str]) -> None:
    with started(*arguments) as running:
        assert running.stdin and running.stdout and running.stderr
        feeder = threading.Thread(target=_feed, args=(running.stdin,))
        feeder.start()
        assert running.stdout.readline()
        running.stdout.close()
        assert running.wait(SHORT) == 0
        feeder.join()
        assert running.stderr.read() == b""


def _feed(pipe) -> None:
    try:
        pipe.write(LONG)
        pipe.close()
    except BrokenPipeError:
        pass


@pytest.mark.parametrize("arguments", [["--help"], ["top", "river"]])
def test_a_reader_that_is_gone_from_the_start_is_no_error(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    run = process(*arguments, stdout=writer)
    os.close(writer)
    assert (run.code, run.errors) == (0, "")


@pytest.mark.parametrize("arguments", [["--help"], ["top", "river"]])
def test_a_full_disk_behind_standard_output_is_told(arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        refused(process(*arguments, stdout=full), 5, "No space left on device")


def test_a_full_disk_leaves_no_file(tmp_path: Path) -> None:
    limited = f"ulimit -f 1; exec {' '.join(program('matrix', '-f', 'csv', '-o', tmp_path / 'a.csv'))}"
    done = subprocess.run(
        ["bash", "-c", limited], input=b"river " * 80, capture_output=True, env=environment(), timeout=SHORT
    )
    assert done.returncode == 5
    assert done.stderr.decode() == f"attn: can't write {tmp_path / 'a.csv'}: File too large\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    refused(process("top", "river", "-o", tmp_path / "a.json"), 5, "Permission denied")
    assert list(tmp_path.iterdir()) == []


def _with_closed(redirection: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = f'exec "$@" {redirection}'
    return subprocess.run(
        ["bash", "-c", command, "bash", *program(*arguments)],
        capture_output=True,
        env=environment(),
        timeout=SHORT,
        check=False,
    )


def test_a_closed_standard_output_is_told_where_it_is_needed(tmp_path: Path) -> None:
    done = _with_closed(">&-", "top", "river bank")
    assert (done.returncode, done.stderr) == (5, b"attn: standard output is closed\n      add -o FILE\n")
    assert _with_closed(">&-", "top", "river bank", "-o", str(tmp_path / "a.json")).returncode == 0
    assert _with_closed(">&-", "--help").returncode == 0
    for words in (("guide",), ("schema", "top")):
        assert b"> FILE" in _with_closed(">&-", *words).stderr


def test_a_closed_standard_input_is_told_where_it_is_needed() -> None:
    done = _with_closed("<&-", "top")
    assert done.returncode == 2
    assert done.stderr.startswith(b"attn: standard input is closed\n")
    assert _with_closed("<&-", "top", "river bank").returncode == 0
    assert _with_closed("<&-", "compute", "--q", "-").returncode == 2


def test_a_closed_standard_error_moves_no_talk_to_standard_output() -> None:
    done = _with_closed("2>&-", "top", "river bank", "-t", "moon")
    assert (done.returncode, done.stdout) == (2, b"")
    done = _with_closed("2>/dev/full", "top", "river bank", "-t", "moon")
    assert (done.returncode, done.stdout) == (2, b"")


def test_no_file_gets_the_number_of_a_closed_stream() -> None:
    """A library's C code would print its stderr into it."""
    code = """if True:
        import os
        import sys
        from attn_cli.__main__ import main
        sys.argv = ["attn", "--version"]
        try:
            main()
        except SystemExit:
            null = os.stat(os.devnull)
            sys.exit([os.path.samestat(os.fstat(descriptor), null) for descriptor in range(3)] != [True] * 3)
    """
    done = subprocess.run(
        ["bash", "-c", 'exec "$@" <&- >&- 2>&-', "bash", sys.executable, "-c", code],
        env=environment(PYTHONPATH=str(Path(attn_cli.__file__).parents[1])), timeout=SHORT, check=False,
    )  # fmt: skip
    assert done.returncode == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_an_interrupted_run_leaves_the_old_file_and_nothing_else(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text("old")
    with started("top", "--lines", "-o", tmp_path / "a.jsonl", "--force", preexec_fn=heeding_signals) as running:
        assert running.stdin and running.stderr
        running.stdin.write(b"river bank\nzzqqy\n")
        running.stdin.flush()
        assert running.stderr.readline() == b"attn: line 2: no word of the text is in the table minilm: zzqqy\n"
        assert len(list(tmp_path.iterdir())) == 2  # the new file waits beside the old one
        running.send_signal(number)
        assert running.wait(SHORT) == code
        assert running.stderr.read() == b""
    assert [file.name for file in tmp_path.iterdir()] == ["a.jsonl"]
    assert (tmp_path / "a.jsonl").read_text() == "old"


def test_two_runs_that_write_one_new_file(tmp_path: Path) -> None:
    """Both begin before the other ends, because each waits for its second line."""
    runs = [started("top", "--lines", "-o", tmp_path / "a.jsonl", stdout=None) for _ in range(2)]
    for run in runs:
        assert run.stdin and run.stderr
        run.stdin.write(b"zzqqy\n")
        run.stdin.flush()
        assert b"line 1" in run.stderr.readline()
    messages = [run.communicate(b"river bank\n", timeout=SHORT)[1] for run in runs]
    assert [run.returncode for run in runs] == [2, 5]
    assert b"was written meanwhile" in messages[1]
    assert [file.name for file in tmp_path.iterdir()] == ["a.jsonl"]


_BUSY = """
import signal, sys, numpy as np
from attn_cli.interrupts import unfinished, watch
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)
watch()
signal.signal(signal.SIGINT, lambda number, frame: None)  # a later handler, which ends nothing
unfinished.add(Path(sys.argv[1]))
x = np.ones((9000, 9000))
print("ready", flush=True)
while True:
    x @ x  # one instruction of Python's, many seconds long
"""


def test_an_interrupt_in_one_long_product_is_answered_soon(tmp_path: Path) -> None:
    (tmp_path / ".attn-x.part").touch()
    with subprocess.Popen(
        [sys.executable, "-c", _BUSY, str(tmp_path / ".attn-x.part")], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=environment(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1"),
    ) as running:  # fmt: skip
        assert running.stdout and running.stderr
        assert running.stdout.readline() == b"ready\n"
        running.send_signal(signal.SIGINT)
        _, status, usage = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
        assert running.returncode == 130
        # Of its processor: how long that is by the clock, others decide. The product takes longer on any machine.
        assert usage.ru_utime + usage.ru_stime < 5
        assert running.stderr.read() == b""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("module", ["threading", "numpy"])
def test_an_interrupt_while_it_starts_shows_no_traceback(module: str) -> None:
    """From its first line on, after which threading is the first module that it imports."""
    command, *words = program("top", "river bank " * 300, "--json")
    with subprocess.Popen(
        [command, "-X", "importtime", *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        env=environment(), preexec_fn=heeding_signals,
    ) as running:  # fmt: skip
        assert running.stderr
        said = b""
        while said.rpartition(b"|")[2].strip() != module.encode():
            said = running.stderr.readline()
            assert said, "it ended before"
        running.send_signal(signal.SIGINT)
        assert running.wait(SHORT) == 130
        assert all(line.startswith(b"import time:") for line in running.stderr.read().splitlines())


def test_one_name_and_one_version_everywhere() -> None:
    from attn_cli import __version__

    assert process("--version").text == f"attn {__version__}\n"
    installed = Path(sys.executable).with_name("attn")
    done = subprocess.run([installed, "--version"], capture_output=True, timeout=SHORT, check=False)
    assert done.stdout.decode() == f"attn {__version__}\n"
