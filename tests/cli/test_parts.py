"""attn parts: the part that an answer needed comes first, in every format; wrong use is an error."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.program import Run, attn, refused
from tests.real_models import MINILM, SMOL
from tests.views.test_schemas import hold

pytestmark = pytest.mark.usefixtures("loads_once")

PARROT = """Notes from the harbour office.
The lamp on the north pier is green.
The ferry to Bergen leaves at seven.
The clerk keeps a parrot called Solomon.
Coffee is free on Sundays.
Question: what is the name of the parrot?
Answer: The parrot is called"""
FACTS = "the cat sat on the mat. he sat on the river bank."


@cache
def written() -> Run:
    """PARROT with the answer that SmolLM2 writes, run once for the tests that read the same numbers."""
    return attn("parts", PARROT, "-m", SMOL, "--json")


def test_the_line_that_an_answer_came_from_comes_first() -> None:
    """The model writes its answer; the line that holds it comes first, in words and in numbers."""
    run = written()
    hold(run, "parts")
    tables = run.json["tables"]
    assert [(row["row"], row["token"]) for row in tables["answer"]] == [(60, "Solomon"), (61, ".")]
    assert tables["run"][0]["queries_from"] == "generated" and [row["row"] for row in tables["rows"]] == [60, 61]
    parts = {part["name"]: part for part in tables["parts"]}
    assert [parts[f"line {at}"]["is_context"] for at in range(1, 8)] == [True] * 5 + [False] * 2
    assert tables["parts"][0]["name"] == "line 4"
    assert tables["parts"][0]["hidden_bits"] == pytest.approx(-11.56, abs=0.05)
    assert run.json["findings"][0] == '"Solomon." needs line 4: without it 3,000 times less likely'


@pytest.mark.parametrize(("text", "needed"), [("The capital of France is", "France"), (PARROT, "line 4")])
def test_a_sink_is_no_cause(text: str, needed: str) -> None:
    """The first word is a sink: hidden it breaks the model, and never is what the answer needs."""
    asked = ("parts", text, "-m", SMOL)
    answer = attn(*asked, "--json").json
    tables, (finding, sink) = answer["tables"], answer["findings"]
    assert f"needs {needed}" in finding.replace('needs "France"', "needs France")
    assert tables["sinks"][0]["key"] == 0
    if needed == "France":
        least = min(tables["parts"], key=lambda part: part["hidden_bits"] or 0.0)
        assert least["text"].strip() == "The" and least["is_sink"] and not least["is_context"]
        assert sink == f'sink "The" 0: hiding it breaks the model (2^{-least["hidden_bits"]:.1f})'


def test_a_given_answer_is_traced_in_place_of_the_model_s() -> None:
    """The same answer, given, written and with --generate, has the same numbers; another one has its own line."""
    expected = [part["hidden_bits"] for part in written().json["tables"]["parts"]]
    for options in (["--answer", "Solomon."], ["--generate", "2"]):
        again = attn("parts", PARROT, "-m", SMOL, "--json", *options).json["tables"]
        assert [part["hidden_bits"] for part in again["parts"]] == pytest.approx(expected, abs=1e-4)
    held = attn("parts", f"{PARROT} Solomon.", "-m", SMOL, "--json", "--answer", "Solomon.").json["tables"]
    assert held["parts"][0]["part"] == 3 and [row["row"] for row in held["rows"]] == [60, 61]
    asked = PARROT.replace("what is the name of the parrot", "what is green").replace("The parrot is called", "It is")
    green = attn("parts", asked, "-m", SMOL, "--answer", "the lamp on the north pier", "--json").json["tables"]
    assert green["parts"][0]["part"] == 1


def test_the_last_message_of_a_chat_is_its_answer(tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    messages = [("user", "The clerk keeps a parrot called Solomon."), ("assistant", "Noted."),
                ("user", "What is the parrot called?"), ("assistant", "Solomon.")]  # fmt: skip
    file.write_text(json.dumps([{"role": role, "content": content} for role, content in messages]))
    tables = attn("parts", "--chat", "-F", file, "-m", SMOL, "--json").json["tables"]
    assert "".join(row["token"] for row in tables["answer"]) == "Solomon."
    assert tables["parts"][0]["name"] == "user 1"


def test_answers_are_for_models_that_write() -> None:
    refused(attn("parts", FACTS, "--answer", "a cat"), 2, "--answer needs a model that writes text")
    refused(attn("parts", FACTS, "-m", MINILM, "--answer", "a"), 2, "needs a model that writes")
    refused(attn("parts", PARROT, "-m", SMOL, "--answer", "a", "--generate", "2"), 2, "given or generated")


@pytest.mark.parametrize("options", [[], ["--cut", "words"], ["-t", "bank"], ["-H", "1,2"]], ids=" ".join)
def test_parts_of_a_table_have_shares_alone(options: list[str]) -> None:
    run = attn("parts", FACTS, "--json", "--quiet", *options)
    hold(run, "parts")
    tables = run.json["tables"]
    assert tables["answer"] == [] and tables["run"][0]["run_mode"] is None
    assert sum(part["share"] for part in tables["parts"]) == pytest.approx(1)
    assert {part["hidden_bits"] for part in tables["parts"]} == {None}


def test_rows_and_arrays(tmp_path: Path) -> None:
    header = attn("parts", FACTS, "--cut", "sentences", "-f", "csv").lines[0].split(",")
    assert header == ["part", "name", "text", "start", "end", "tokens", "share", "non_sink_share",
                      "hidden_bits", "hidden_cosine_distance", "kind", "key", "is_context", "is_sink"]  # fmt: skip
    archive = tmp_path / "parts.npz"
    assert attn("parts", FACTS, "-o", archive).code == 0
    with np.load(archive) as arrays:
        np.testing.assert_allclose(arrays["share"].sum(), 1)


def test_wrong_use() -> None:
    refused(attn("parts", FACTS, "--cut", "lnes"), 2, "lnes", "paragraphs")
    refused(attn("parts", FACTS, "--cut", "roles"), 2, "--chat")


def test_a_text_after_which_the_model_writes_nothing_has_no_answer_to_explain() -> None:
    refused(attn("parts", "What is the capital of France?", "-m", SMOL), 2, "writes nothing after this text", "--chat")
