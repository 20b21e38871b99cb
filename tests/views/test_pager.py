"""Nothing is cut away: what is taller than a terminal is in the pager, whole, and everywhere else it is printed."""

from pathlib import Path

import numpy as np
import pytest

from attn_cli.views.pager import pager
from tests.program import Run, attn
from tests.views.test_golden import LONG, SENTENCE

COMMANDS = {
    "inspect": ["inspect", LONG],
    "matrix": ["matrix", LONG],
    "top": ["top", LONG],
    "heads": ["heads", SENTENCE],
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


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({"PAGER": "b"}, "b"), ({"PAGER": ""}, None), ({"PAGER": "cat"}, None),
        ({}, "less"), ({"PATH": "/nowhere"}, None), ({"TERM": "dumb", "PAGER": "b"}, None),
    ],
    ids=str,
)  # fmt: skip
def test_whose_pager_it_is(variables: dict[str, str], found: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PAGER", "TERM"):
        monkeypatch.delenv(name, raising=False)
    Path("less").write_text("#!/bin/sh\ncat\n")
    Path("less").chmod(0o755)
    for name, value in ({"PATH": str(Path.cwd())} | variables).items():
        monkeypatch.setenv(name, value)
    named = pager()
    assert (Path(named).name if named else named) == found
