"""attn inspect of a model that writes: what comes next, what it rests on, and nothing below a tenth of a bit."""

import re
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.program import attn
from tests.real_models import SMOL
from tests.views.test_schemas import hold

MARY = "When Mary and John went to the store, John gave a drink to Mary and the book to"
TEXT = "the cat sat on a photo"


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
    story = attn("inspect", TEXT, "-m", llama, "--json").json["tables"]
    tokens = attn("inspect", TEXT, "-m", llama, "--json").json["input"]["tokens"]
    model = AutoModelForCausalLM.from_pretrained(llama).eval()
    with torch.no_grad():
        logits = model(torch.tensor([[token["id"] for token in tokens]])).logits[0, -1]
    expected = logits.softmax(-1).topk(5)
    assert [each["id"] for each in story["next"]] == expected.indices.tolist()
    assert [each["probability"] for each in story["next"]] == pytest.approx(expected.values.tolist(), rel=1e-4)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_nothing_below_a_tenth_of_a_bit_is_told(llama: Path, width: int) -> None:
    run = attn("inspect", TEXT, "-m", llama, terminal=True, env={"COLUMNS": str(width), "NO_COLOR": "1"})
    assert run.columns <= width
    story = attn("inspect", TEXT, "-m", llama, "--json").json["tables"]
    told = [abs(float(number)) for number in re.findall(r" ([+-]\d+\.\d\d)(?=  | *\n| \()", run.text)]
    kept = [each["bits"] for each in [*story["needs"], *story["brought_by"]] if abs(each["bits"]) >= 0.1]
    assert told and min(told) >= 0.1
    assert set(told) <= {round(abs(bits), 2) for bits in kept}


def test_recordings_of_other_commands_and_many_texts_have_no_story(llama: Path, tmp_path: Path) -> None:
    assert attn("heads", TEXT, "-m", llama, "-o", tmp_path / "a.attn").code == 0
    again = attn("inspect", "-m", tmp_path / "a.attn", "--json")
    hold(again, "inspect")
    assert "answer" not in again.json["tables"]
    lines = attn("inspect", "--lines", "-m", llama, "--json", stdin=b"the cat\nsat on\n")
    assert lines.code == 0
    assert b'"brought_by"' not in lines.bytes


def test_a_generated_answer_is_told_whole(llama: Path) -> None:
    run = attn("inspect", TEXT, "-m", llama, "--generate", "3", "--json")
    story = run.json["tables"]
    written = [token for token in run.json["input"]["tokens"] if token.get("generated")]
    assert story["answer"][0]["answer"] == "".join(token["text"] for token in written)
    assert story["answer"][0]["rows"] == [token["index"] - 1 for token in written]
    screen = attn("inspect", TEXT, "-m", llama, "--generate", "3", terminal=True, env={"NO_COLOR": "1"})
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
    first, *_ = (word for word in story["needs"] if "Remember" not in word["text"])
    assert "blue stone" in first["text"]
    assert first["bits"] < -2
    assert len(story["brought_by"]) == 24


def test_a_recording_tells_the_story_of_its_run(llama: Path, tmp_path: Path) -> None:
    asked = attn("inspect", TEXT, "-m", llama, "--json").json["tables"]
    assert attn("inspect", TEXT, "-m", llama, "-o", tmp_path / "run.attn").code == 0
    assert attn("inspect", "-m", tmp_path / "run.attn", "--json").json["tables"] == asked
