"""On a terminal a screen is at most the screen, says what it left out, and keeps its title; a pipe gets everything."""

import re

import numpy as np
import pytest

from attn_cli.views.drawing.heatmap import HeatMap
from attn_cli.views.drawing.screen import Screen
from tests.program import Run, attn
from tests.views.test_golden import LONG, SENTENCE

COMMANDS = {
    "inspect": ["inspect", LONG],
    "matrix": ["matrix", LONG],
    "mean": ["matrix", LONG, "--mean"],
    "top": ["top", LONG],
    "heads": ["heads", SENTENCE],
    "plane": ["plane", SENTENCE, "the bank gave me a loan"],
    "steps": ["compute", SENTENCE, "--random-projections", "3", "--steps"],
    "compute": ["compute", "--q", "q.npy"],
}


def rows_of(run: Run, columns: int) -> int:
    """The rows of a terminal that an answer takes: what is to be copied goes on over several."""
    lines = re.sub(r"\x1b\[[\d;]*m", "", run.text).splitlines()
    return sum(max(-(-len(line) // columns), 1) for line in lines)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("q.npy", np.random.default_rng(0).normal(size=(2, 2, 60, 8)))


@pytest.mark.parametrize(("columns", "lines"), [(40, 24), (80, 24), (120, 40), (200, 50)])
@pytest.mark.parametrize(
    "colour", [{"NO_COLOR": "1"}, {"COLORTERM": "truecolor", "TERM": "xterm"}], ids=["plain", "colour"]
)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_screen_is_no_higher_than_the_terminal(name: str, colour: dict, columns: int, lines: int) -> None:
    run = attn(*COMMANDS[name], terminal=True, env={"COLUMNS": str(columns), "LINES": str(lines)} | colour)
    assert run.code == 0
    assert rows_of(run, columns) < lines
    whole = attn(*COMMANDS[name], env={"COLUMNS": str(columns)})
    assert "add | less" not in whole.text
    assert len(whole.lines) > 5


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (120, 40), (200, 50)])
@pytest.mark.parametrize(
    "colour", [{"NO_COLOR": "1"}, {"COLORTERM": "truecolor", "TERM": "xterm"}], ids=["plain", "colour"]
)
def test_a_long_text_keeps_title_pooling_and_both_axes(columns: int, lines: int, colour: dict) -> None:
    text = f"{LONG} {LONG} {LONG}"
    run = attn("matrix", text, "--mean", terminal=True, env={"COLUMNS": str(columns), "LINES": str(lines)} | colour)
    assert rows_of(run, columns) < lines
    assert "mean of 4 heads" in run.text
    assert "max over" in run.text
    assert "rows = queries" in run.text
    assert "add | less" not in run.text
    assert "-137" in run.text or "\n0" in run.text  # the last row's label, or its first number


@pytest.mark.parametrize(
    "arguments",
    [
        ["plane", "river bank"],
        ["nearest", "bank"],
        ["compare", "river bank", "bank loan"],
        ["cost", "-n", "4096", "--heads", "8", "--dim", "64", "--layers", "2"],
        ["learn", "river bank", "-w", "river", "--to", "bank", "--steps", "2"],
        ["layers"],
        [],
    ],
    ids=lambda arguments: " ".join(arguments[:1]),
)
@pytest.mark.parametrize(("columns", "lines"), [(40, 24), (80, 24)])
def test_small_answers_fit_small_screens(arguments: list[str], columns: int, lines: int) -> None:
    run = attn(*arguments, terminal=True, env={"COLUMNS": str(columns), "LINES": str(lines), "NO_COLOR": "1"})
    assert run.code == 0, run.errors
    assert rows_of(run, columns) < lines
    assert run.columns <= columns


def test_a_map_that_the_screen_holds_has_its_numbers() -> None:
    """Two rows share a line only where a line each would not fit."""
    env = {"COLUMNS": "80", "LINES": "24", "COLORTERM": "truecolor", "TERM": "xterm"}
    words = "he sat on the river bank and had a loan"
    for command in (["matrix", words], ["matrix", words, "--against", "he sat in a savings bank and had a loan"]):
        run = attn(*command, "-H", "0", terminal=True, env=env)
        assert "▀" not in run.text and "0." in run.lines[-4], run.text
        assert rows_of(run, 80) < 24


def test_what_is_left_out_is_counted_with_what_chooses() -> None:
    run = attn("matrix", SENTENCE, terminal=True, env={"COLUMNS": "80", "LINES": "24", "NO_COLOR": "1"})
    last = next(line for line in run.lines if line.startswith("… "))
    assert "lines more: add | less for all" in last
    assert "-l, -H, --mean choose" in last


def test_no_choice_is_advised_that_was_made_or_leaves_no_less() -> None:
    env = {"COLUMNS": "80", "LINES": "12", "NO_COLOR": "1"}
    for command, advised in (
        (["top", SENTENCE], "--token picks a query"),
        (["top", SENTENCE, "-t", "bank"], "--mean, -l and -H choose"),
        (["compute", SENTENCE, "-H", "0"], "-o out.npz has all"),
        (["compute", SENTENCE], "-H chooses heads · -o out.npz has all"),
        (["compute", SENTENCE, "--random-projections", "1", "--heads", "2"], "-o out.npz has all"),
    ):
        lines = attn(*command, terminal=True, env=env).lines
        said = " ".join(lines[next(at for at, line in enumerate(lines) if line.startswith("… ")) :]).split(" next: ")[0]
        assert said.endswith(f"less for all · {advised}") or (len(command) == 2 and said.endswith(advised)), said


def test_cells_that_nobody_may_look_at_differ_from_weights_of_0() -> None:
    words = ("compute", "the cat sat", "--mask", "causal", "-H", "0")
    run = attn(*words, terminal=True, env={"COLUMNS": "40", "NO_COLOR": "1"})
    weights = run.text.partition("weights")[2].splitlines()
    assert "blank = masked" in run.text
    assert weights[3].split() == ["1.000", "0", "the"]


@pytest.mark.parametrize(("lines", "has_map"), [(24, False), (30, True), (40, True)])
def test_an_overview_shows_its_map_whole_or_where_it_is(lines: int, has_map: bool) -> None:
    env = {"COLUMNS": "80", "LINES": str(lines), "NO_COLOR": "1"}
    run = attn("inspect", "the river bank lent money", terminal=True, env=env)
    assert len(run.lines) < lines
    assert "… " not in run.text
    assert any(line.startswith("most interesting head") for line in run.lines)
    assert ("5 x 5" in run.text) == has_map
    assert run.lines[-1].startswith("next: attn matrix")
    if has_map:
        assert run.lines[-2].endswith("4 money")


def test_the_height_of_maps_is_that_of_their_lines() -> None:
    generator = np.random.default_rng(5)
    for depth, rows in (("none", 5), ("none", 50), ("truecolor", 90)):
        for title in ("short", " · ".join(["a title of many parts"] * 8)):
            values = generator.dirichlet(np.ones(rows) / 8, rows)
            names = [str(at) for at in range(rows)]
            each = HeatMap(values, "weights", title, names, names, Screen(80, depth, height=30))
            assert each.height == len(each.lines())


@pytest.mark.parametrize(("columns", "lines"), [(60, 24), (80, 24), (100, 30)])
@pytest.mark.parametrize("text", ["the cat sat", SENTENCE, LONG], ids=["three", "six", "long"])
def test_the_weights_of_a_walk_stand_on_the_first_screen(text: str, columns: int, lines: int) -> None:
    walk = ["compute", text, "--steps", "--token", "0"]
    run = attn(*walk, terminal=True, env={"COLUMNS": str(columns), "LINES": str(lines), "NO_COLOR": "1"})
    assert rows_of(run, columns) < lines
    start = next(at for at, line in enumerate(run.lines) if "scores to weights" in line)
    shown = [line.split() for line in run.lines[start:]]
    total = next(line for line in shown if line[:1] == ["sum"])
    assert total[-1] == "1.000"
    fewer = any("keys; the others hold" in line for line in run.lines)
    assert fewer == (len(shown[3 : shown.index(total)]) < len(text.split()))
    if text == SENTENCE and columns > 60:
        assert not fewer
    whole = attn(*walk, env={"COLUMNS": str(columns)})
    assert all(line in [row.split() for row in whole.lines] for line in shown[3 : shown.index(total)])
