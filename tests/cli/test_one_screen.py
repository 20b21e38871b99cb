"""attn inspect: it chooses and says so, tells what an answer rests on, and faces name the same heads."""

import itertools
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from attn_cli.explore.answer import opening as opening_of
from attn_cli.recording import Recording
from tests.explore.playing import scene_of
from tests.program import attn
from tests.real_models import MINILM, SMOL
from tests.views.test_schemas import hold
from tests.views.webpage.test_build import document

MARY = "When Mary and John went to the store, John gave a drink to Mary and the book to"
TEXTS = (MARY, "def add(a, b): return a +")
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
def test_a_head_that_rests_on_a_sink_has_a_sentence_in_place_of_a_map() -> None:
    blank = attn("matrix", MARY, "-m", SMOL, "-H", "18.8", terminal=True, env=SCREEN).text
    assert "no picture: every row gives 0 When 0.9" in blank
    assert "1." not in blank.partition("no picture")[2].partition("(--color")[0]
    raw = attn("matrix", MARY, "-m", SMOL, "-H", "18.8", "--color-scale", "raw", terminal=True, env=SCREEN).text
    assert "no picture" not in raw
    assert "18 to" in raw
    assert "no picture" not in attn("matrix", MARY, "-m", SMOL, "-H", "18.8").text  # a pipe has the numbers


TEXT = f"{MARY} John. {MARY} John."  # said twice: rows enough to name heads that find content


@pytest.mark.usefixtures("loads_once")
def test_all_faces_name_the_same_heads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert attn("inspect", TEXT, "-m", SMOL, "-o", "run.attn").code == 0
    (finding,) = attn("top", MARY, "-m", SMOL, "--json").json["findings"]
    assert finding in attn("top", MARY, "-m", SMOL, terminal=True, env=SCREEN).text
    Path("text.txt").write_text(f"{TEXT}\n")
    assert attn("scan", "text.txt", "-m", SMOL, "-o", "scan").code == 0
    inspected = attn("inspect", TEXT, "-m", SMOL, "--json").json["tables"]
    expected = named(inspected["kinds"])
    assert (17, 5) in expected["induction"]
    for arguments in (("inspect", "-m", "run.attn"), ("heads", "--kinds", "--file", "text.txt", "-m", SMOL)):
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
    assert {tuple(x["cell"][:2]) for of in page["layers"] for x in of["does"] if isinstance(x, dict)} == {
        x[:2] for x in outs
    }


def named(heads: list[dict]) -> dict[str, set[tuple[int, int]]]:  # type: ignore[type-arg]
    found: dict[str, set[tuple[int, int]]] = {"induction": set(), "duplicate": set()}
    for head in heads:
        if head["kind"] in found:
            found[head["kind"]].add((head["layer"], head["head"]))
    return found


RIVER = "he sat on the river bank"
PIECES = "the unaffable hedgehog was overjoyed"


def read_by_value(text: str, *more: str, column: str = "value_share") -> dict[int, dict[int, float]]:
    """What each token reads of each, or the weight, the mean over layers: of attn top, whose layers come one by one."""
    rows = attn("top", text, *more, "--by", "value", "--mean", "-k", "40", "--json").json["tables"]["top"]
    layers = {row["layer"] for row in rows}
    sums: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for row in rows:
        sums[row["query"]][row["key"]] += row[column] / len(layers)
    return sums


def by_word(run: Any) -> list[list[dict[str, Any]]]:
    """For each word what it reads: itself, then others."""
    rows = run["tables"]["reads"]
    return [list(group) for _, group in itertools.groupby(rows, key=lambda row: row["query"])]


@pytest.mark.usefixtures("loads_once")
@pytest.mark.parametrize("model", [(), ("-m", str(MINILM))])
def test_words_read_what_top_says_by_value(model: tuple[str, ...]) -> None:
    run = attn("inspect", RIVER, *model, "--json")
    hold(run, "inspect")
    reads, expected = by_word(run.json), read_by_value(RIVER, *model)
    assert [word["query_token"] for word, *_ in reads] == [word["key_token"] for word, *_ in reads] == RIVER.split()
    for word, *sources in reads:
        own = expected[word["query"]]
        assert word["share"] == pytest.approx(own[word["query"]], abs=1e-5)
        shares = [source["share"] for source in sources]
        assert shares == pytest.approx([own[source["key"]] for source in sources], abs=1e-5)
        sinks = {"[CLS]", "[SEP]"}
        tokens = run.json["input"]["tokens"]
        others = [own[at] for at, token in enumerate(tokens) if at != word["query"] and token["text"] not in sinks]
        assert shares == pytest.approx(sorted(others, reverse=True)[:3], abs=1e-5)


@pytest.mark.usefixtures("loads_once")
def test_pieces_are_read_as_their_word() -> None:
    run = attn("inspect", PIECES, "-m", MINILM, "--json").json
    reads, expected, tokens = by_word(run), read_by_value(PIECES, "-m", str(MINILM)), run["input"]["tokens"]
    assert len(tokens) > len(reads) + 2  # some words have several tokens
    assert [word["query_token"] for word, *_ in reads] == PIECES.split()
    starts = [word["query"] for word, *_ in reads] + [len(tokens) - 1]
    spans = {start: range(start, stop) for start, stop in itertools.pairwise(starts)}
    for word, *sources in reads:
        rows = spans[word["query"]]
        for source in sources:
            whole = sum(expected[row][key] for row in rows for key in spans[source["key"]]) / len(rows)
            assert source["share"] == pytest.approx(whole, abs=1e-5)


@pytest.mark.usefixtures("loads_once")
def test_one_token_shows_what_it_reads_and_what_for() -> None:
    run = attn("inspect", MARY, "-m", SMOL, "-t", "10", terminal=True, env=SCREEN)
    assert run.columns <= 80
    expected = read_by_value(MARY, "-m", str(SMOL), "-t", "10")[10]
    most = max((key for key in expected if key not in (0, 6, 10)), key=lambda key: expected[key])
    assert most == 9
    assert f'"gave" 10 reads "John" 9 most: {expected[9]:.2f} of all that it reads' in run.text
    assert re.search(r'^next +"Mary" 7\d%', run.text, re.MULTILINE)  # what is written after this token
    assert re.search(r'^needs +"John" 9 +-\d', run.text, re.MULTILINE)
    weights = attn("top", MARY, "-m", SMOL, "-t", "10", "-l", "16", "-H", "0", "--json").json["tables"]["top"]
    assert re.search(rf'^  16\.0 +"John" 9 +{weights[0]["weight"]:.2f}', run.text, re.MULTILINE)


CAT = "the cat sat on a photo"


@pytest.mark.usefixtures("loads_once")
def test_effects_are_those_of_parts_and_knock() -> None:
    run = attn("inspect", MARY, "-m", SMOL, "--json")
    hold(run, "inspect")
    story = run.json["tables"]
    words = {word["key"]: word["bits"] for word in story["needs"]}
    parts = attn("parts", MARY, "-m", SMOL, "-t", "18", "--cut", "words", "--json").json["tables"]["parts"]
    masked = {part["key"]: part["hidden_bits"] for part in parts}
    assert {0, 6, 18}.isdisjoint(words)  # sinks, and the row itself
    assert words == pytest.approx({at: masked[at] for at in words}, abs=2e-3)
    needed = [at for at, bits in masked.items() if bits < -1 and at not in (0, 18)]
    assert set(needed) <= set(words)
    heads = {(head["layer"], head["head"]): head["bits"] for head in story["brought_by"]}
    knocked = {
        (x["layer"], x["head"]): x["bits"] for x in attn("knock", MARY, "-m", SMOL, "--json").json["tables"]["heads"]
    }
    assert heads == pytest.approx({place: knocked[place] for place in heads}, abs=2e-3)
    assert (12, 8) in heads  # it reads a word that no word's mask names, and is needed
    largest = sorted(knocked, key=lambda place: -abs(knocked[place]))[:10]
    assert sum(place in heads for place in largest) >= 8
    most = sorted((abs(bits) for bits in knocked.values()), reverse=True)
    of_words = {(word["layer"], word["head"]) for word in story["needs"] if "head" in word}
    ranked = len(heads) - len(of_words - set(largest))
    assert sum(map(abs, heads.values())) > 0.86 * sum(most[:ranked])
    assert story["answer"][0]["noise"] < 1e-3
    for word in story["needs"]:  # whoever reads it most is tried
        if word["bits"] <= -0.1:
            assert word["weight"] >= 0.1 and (word["layer"], word["head"]) in heads


def test_next_tokens_are_those_of_the_model(llama: Path) -> None:
    story = attn("inspect", CAT, "-m", llama, "--json").json["tables"]
    tokens = attn("inspect", CAT, "-m", llama, "--json").json["input"]["tokens"]
    model = AutoModelForCausalLM.from_pretrained(llama).eval()
    with torch.no_grad():
        logits = model(torch.tensor([[token["id"] for token in tokens]])).logits[0, -1]
    expected = logits.softmax(-1).topk(5)
    assert [each["id"] for each in story["next"]] == expected.indices.tolist()
    assert [each["probability"] for each in story["next"]] == pytest.approx(expected.values.tolist(), rel=1e-4)


def test_recordings_of_other_commands_and_many_texts_have_no_story(llama: Path, tmp_path: Path) -> None:
    assert attn("heads", CAT, "-m", llama, "-o", tmp_path / "a.attn").code == 0
    again = attn("inspect", "-m", tmp_path / "a.attn", "--json")
    hold(again, "inspect")
    assert "answer" not in again.json["tables"]
    lines = attn("inspect", "--lines", "-m", llama, "--json", stdin=b"the cat\nsat on\n")
    assert lines.code == 0
    assert b'"brought_by"' not in lines.bytes


def test_a_generated_answer_is_told_whole(llama: Path) -> None:
    run = attn("inspect", CAT, "-m", llama, "--generate", "3", "--json")
    story = run.json["tables"]
    written = [token for token in run.json["input"]["tokens"] if token.get("generated")]
    assert story["answer"][0]["answer"] == "".join(token["text"] for token in written)
    assert story["answer"][0]["rows"] == [token["index"] - 1 for token in written]
    screen = attn("inspect", CAT, "-m", llama, "--generate", "3", terminal=True, env={"NO_COLOR": "1"})
    assert "\nwrote  " in screen.text


@pytest.mark.usefixtures("loads_once")
def test_a_long_text_is_told_by_its_sentences() -> None:
    others = "The river rose over the lower quays, and the guards closed the gates of the old garden. " * 8
    text = (
        f"{others}The key of the tower lies under the blue stone. {others}Remember: the key of the tower lies under the"
    )
    run = attn("inspect", text, "-m", SMOL, "--json").json
    assert len(run["input"]["tokens"]) > 300
    story = run["tables"]
    assert (story["answer"][0]["answer"].strip(), story["answer"][0]["cut"]) == ("blue", "sentences")
    first, *_ = (part for part in story["needs"] if part["name"].startswith("sentence "))
    assert "blue stone" in first["text"]
    assert first["bits"] < -2
    assert len(story["brought_by"]) >= 24


def test_a_recording_tells_the_story_of_its_run(llama: Path, tmp_path: Path) -> None:
    asked = attn("inspect", CAT, "-m", llama, "--json").json["tables"]
    assert attn("inspect", CAT, "-m", llama, "-o", tmp_path / "run.attn").code == 0
    told = attn("inspect", "-m", tmp_path / "run.attn", "--json").json["tables"]
    for one, other in zip(asked.pop("matrices"), told.pop("matrices"), strict=True):  # by torch, and by NumPy
        np.testing.assert_allclose(one.pop("weights"), other.pop("weights"), rtol=1e-6)
        assert one == other
    assert told == asked
