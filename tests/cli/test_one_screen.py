"""On a terminal a command that was told nothing chooses and says so; a pipe gets everything; no picture is blank."""

import json
import re
from pathlib import Path

import pytest

from tests.program import attn
from tests.real_models import MINILM, SMOL

MARY = "When Mary and John went to the store, John gave a drink to Mary and the book to"
TEXTS = (
    MARY,
    "Roses are red, violets are",
    "def add(a, b): return a +",
    "the the the the the the the the",
)
SCREEN = {"COLUMNS": "80", "NO_COLOR": "1"}


@pytest.mark.usefixtures("loads_once")
@pytest.mark.parametrize("text", TEXTS)
def test_no_overview_is_blank_and_no_finding_below_its_weight(text: str) -> None:
    run = attn("inspect", text, "-m", SMOL, terminal=True, env=SCREEN)
    assert run.code == 0
    assert run.columns <= 80
    assert re.search(r"^next +\S", run.text, re.MULTILINE)
    shown = re.search(r"^layer (\d+) head (\d+) · weights", run.text, re.MULTILINE)
    assert shown is not None
    data = attn("matrix", text, "-m", SMOL, "-H", f"{shown[1]}.{shown[2]}", "--json").json["tables"]
    (matrix,) = data["matrices"]
    beside = [weight for row in matrix["weights"][0][1:] for weight in row[1:] if weight is not None]
    assert max(beside) >= 0.1  # something else than the first key is read
    told = [float(number) for number in re.findall(r'attends to "\S+" \d+ \((\d\.\d\d)\)', run.text)]
    assert all(weight >= 0.1 for weight in told)


@pytest.mark.usefixtures("loads_once")
@pytest.mark.parametrize("command", ["top", "heads", "matrix"])
@pytest.mark.parametrize("model", [SMOL, MINILM])
def test_what_comes_next_shows_what_was_promised(command: str, model: Path) -> None:
    run = attn(command, MARY, "-m", model, terminal=True, env=SCREEN)
    assert run.code == 0
    assert run.columns <= 80
    after = run.lines[-1]
    head = re.search(r"-H (\d+)\.(\d+)", after)
    assert head is not None
    rows = json.loads(attn("matrix", MARY, "-m", model, "-H", f"{head[1]}.{head[2]}", "--json").bytes)
    weights = rows["tables"]["matrices"][0]["weights"][0]
    assert max(weight for row in weights[1:] for weight in row[1:] if weight is not None) >= 0.1
    assert f"{head[1]}.{head[2]}" in "\n".join(run.lines[:-1])


@pytest.mark.usefixtures("loads_once")
def test_top_shows_the_row_that_decides() -> None:
    screen = attn("top", MARY, "-m", SMOL, terminal=True, env=SCREEN)
    assert '"to" 18 attends to' in screen.text
    named = dict(re.findall(r'^  (\d+\.\d+) +("\w+" \d+) +\d\.\d\d', screen.text, re.MULTILINE))
    assert named["20.0"] == '"Mary" 14'
    (key, *_) = attn("top", MARY, "-m", SMOL, "-t", "18", "-H", "20.0", "--json").json["tables"]["top"]
    assert (key["key"], key["rank"]) == (14, 0)


@pytest.mark.usefixtures("loads_once")
def test_a_head_that_rests_on_a_sink_has_a_sentence_in_place_of_a_map() -> None:
    blank = attn("matrix", MARY, "-m", SMOL, "-H", "18.8", terminal=True, env=SCREEN).text
    assert "no picture: every row gives 0 When 0.9" in blank
    assert "1." not in blank.partition("no picture")[2].partition("(--color")[0]
    raw = attn("matrix", MARY, "-m", SMOL, "-H", "18.8", "--color-scale", "raw", terminal=True, env=SCREEN).text
    assert "no picture" not in raw
    assert "18 to" in raw
    assert "no picture" not in attn("matrix", MARY, "-m", SMOL, "-H", "18.8").text  # a pipe has the numbers


def test_the_heads_that_read_another_word_are_told_beside_what_a_word_gives_itself() -> None:
    run = attn("inspect", "river bank", "-t", "bank", terminal=True, env=SCREEN)
    weights = attn("matrix", "river bank", "--json").json["tables"]["matrices"][0]["weights"]
    rows = re.findall(r'^  0\.(\d) +"river" 0 +(\d\.\d\d)', run.text, re.MULTILINE)
    assert [(int(head), float(weight)) for head, weight in rows] == sorted(
        ((head, round(of_head[1][0], 2)) for head, of_head in enumerate(weights)), key=lambda row: -row[1]
    )
    itself = sum(of_head[1][1] for of_head in weights) / len(weights)
    assert f"itself   {itself:.2f}" in run.text
