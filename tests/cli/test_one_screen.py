"""On a terminal a command that was told nothing chooses and says so; faces name the same heads."""

import re
from pathlib import Path

import pytest

from attn_cli.explore.answer import opening as opening_of
from attn_cli.recording import Recording
from tests.explore.playing import scene_of
from tests.program import attn
from tests.real_models import SMOL
from tests.views.webpage.test_build import document

MARY = "When Mary and John went to the store, John gave a drink to Mary and the book to"
TEXTS = (
    MARY,
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


TEXT = f"{MARY} John. {MARY} John."  # said twice: rows enough to name heads that find content


@pytest.mark.usefixtures("loads_once")
def test_all_faces_name_the_same_heads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert attn("inspect", TEXT, "-m", SMOL, "-o", "run.attn").code == 0
    Path("text.txt").write_text(f"{TEXT}\n")
    assert attn("scan", "text.txt", "-m", SMOL, "-o", "scan").code == 0
    inspected = attn("inspect", TEXT, "-m", SMOL, "--json").json["tables"]
    expected = named(inspected["kinds"])
    assert (17, 5) in expected["induction"]
    for arguments in (("inspect", "-m", "run.attn"), ("heads", TEXT, "--kinds", "-m", SMOL),
                      ("heads", "--kinds", "--file", "text.txt", "-m", SMOL)):  # fmt: skip
        answer = attn(*arguments, "--json").json
        assert named(answer["tables"]["kinds"]) == expected
    assert named(attn("scan", "show", "scan", "--json").json["tables"]["heads"]) == expected

    scene = scene_of(Recording.load("run.attn"))
    outs = [(out.call, out.at, out.weight) for out in scene.outs]
    (matrix,), story = inspected["matrices"], inspected
    word = story["needs"][0]
    brings = next(head for head in story["brought_by"] if word["key"] <= head["key"] < word["key"] + word["tokens"])
    assert (brings["layer"], brings["head"]) == (matrix["layer"], matrix["heads"][0])
    assert min(weight for *_, weight in outs) >= 0.1
    assert attn("inspect", "-m", "run.attn", "-o", "page.html").code == 0
    page, opening = document(Path("page.html").read_bytes()), opening_of(scene)
    place = brings["layer"], brings["head"]  # every layer is recorded, with all its heads
    assert page["start"] == [opening.at, opening.head, opening.query, opening.key]
    assert (opening.at, opening.head, opening.key) == (*place, brings["key"])
    assert [tuple(out["cell"][:2]) for out in page["outs"]] == [out[:2] for out in outs]


def named(heads: list[dict]) -> dict[str, set[tuple[int, int]]]:  # type: ignore[type-arg]
    found: dict[str, set[tuple[int, int]]] = {"induction": set(), "duplicate": set()}
    for head in heads:
        if head["kind"] in found:
            found[head["kind"]].add((head["layer"], head["head"]))
    return found
