"""attn parts, attn knock and --generate: what an answer needed comes first, what was generated is marked; wrong use."""

import json
from functools import cache
from pathlib import Path

import pytest
import torch
import transformers
from transformers.models.llama.modeling_llama import LlamaMLP

from attn_cli.model.intervention import Change
from attn_cli.sources import open_source
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.answers.knock import knock
from tests.media import tokenizer
from tests.program import Run, attn, refused
from tests.real_models import MINILM, SMOL
from tests.sources.huggingface.models import tiny
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
    assert run.json["findings"][0] == '"Solomon." needs line 4: with it hidden 3,000 times less likely'


@pytest.mark.parametrize(("text", "needed"), [("The capital of France is", "France"), (PARROT, "line 4")])
def test_a_sink_is_no_cause(text: str, needed: str) -> None:
    """The first word is a sink: hidden it breaks the model, and never is what the answer needs."""
    answer = (written() if text == PARROT else attn("parts", text, "-m", SMOL, "--json")).json
    tables, (finding, sink, *others) = answer["tables"], answer["findings"]
    assert f"needs {needed}" in finding.replace('needs "France"', "needs France")
    assert tables["sinks"][0]["key"] == 0 and len(others) == min(len(tables["sinks"]), 3) - 1
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
    paragraphs = attn("parts", "he sat.\nhe swam.\n\nshe went\n\nthey ran", "--json").json["tables"]["parts"]
    assert {part["name"] for part in paragraphs} == {f"paragraph {number}" for number in (1, 2, 3)}
    refused(attn("parts", FACTS, "--answer", "a cat"), 2, "--answer needs a model that writes text")
    refused(attn("parts", FACTS, "-m", MINILM, "--answer", "a"), 2, "needs a model that writes")
    refused(attn("parts", PARROT, "-m", SMOL, "--answer", "a", "--generate", "2"), 2, "--answer and --generate")


@pytest.mark.parametrize("options", [[], ["--cut", "words"], ["-t", "bank"], ["-H", "1,2"]], ids=" ".join)
def test_parts_of_a_table_have_shares_alone(options: list[str]) -> None:
    run = attn("parts", FACTS, "--json", "--quiet", *options)
    hold(run, "parts")
    tables = run.json["tables"]
    assert tables["answer"] == [] and tables["run"][0]["run_mode"] is None
    assert sum(part["share"] for part in tables["parts"]) == pytest.approx(1)
    assert {part["hidden_bits"] for part in tables["parts"]} == {None}


def test_a_text_after_which_the_model_writes_nothing_has_no_answer_to_explain() -> None:
    refused(attn("parts", "What is the capital of France?", "-m", SMOL), 2, "writes nothing after this text", "--chat")


TEXT = "the cat sat on a photo"


def test_data_has_every_head(llama: Path) -> None:
    run = attn("knock", TEXT, "-m", llama, "-k", "1", "--json")
    hold(run, "knock")
    heads = run.json["tables"]["heads"]
    assert sorted((head["layer"], head["head"]) for head in heads) == [(x, y) for x in range(2) for y in range(4)]
    assert [head["bits"] for head in heads] == sorted(head["bits"] for head in heads) and heads[0]["bits"] < -0.05
    assert run.json["tables"]["answer"][0]["row"] == 6  # </s>, which the tokenizer puts there, is left out
    assert all(head["kv_head"] == head["head"] // 2 for head in heads)


def test_heads_together_and_one_by_one(llama: Path) -> None:
    run = attn("knock", TEXT, "-m", llama, "--together", "0.1,1.2", "--json")
    hold(run, "knock")
    heads, (together,) = run.json["tables"]["heads"], run.json["tables"]["together"]
    assert {(head["layer"], head["head"]) for head in heads} == {(0, 1), (1, 2)}
    assert together["bits"] != pytest.approx(sum(head["bits"] for head in heads), abs=1e-6)


def test_everywhere_has_the_loss_of_the_text(llama: Path) -> None:
    run = attn("knock", TEXT, "-m", llama, "--everywhere", "-H", "0", "--json")
    hold(run, "knock")
    assert [row["row"] for row in run.json["tables"]["rows"]] == list(range(7))
    assert all(head["loss_bits"] is not None for head in run.json["tables"]["heads"])


def test_other_rows_and_what_was_written(llama: Path) -> None:
    picked = attn("knock", TEXT, "-m", llama, "-t", "cat", "-H", "0.1", "--json").json["tables"]
    assert [row["row"] for row in picked["rows"]] == [2]
    written = attn("knock", TEXT, "-m", llama, "--generate", "3", "-H", "0.1", "--json")
    hold(written, "knock")
    tables = written.json["tables"]
    assert tables["run"][0]["generated"]
    assert [token["row"] for token in tables["answer"]] == [row["row"] for row in tables["rows"]]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("-m", "toy"), "attn knock runs a model"), (("-H", "9.9"), "there is no layer 9"), (("--together", "x"), "x"),
        (("-H", "0.9"), "there is no head 0.9"), (("-t", "cat", "--everywhere"), "--token and --everywhere"),
        (("--mean",), "mean ablation over 7 rows"),
        (("--together", "0.1", "-H", "1"), "--together and --layer or --head"),
    ],
)  # fmt: skip
def test_wrong_use_is_one_line(llama: Path, options: tuple[str, ...], words: str) -> None:
    refused(attn("knock", TEXT, "-m", llama, *options), 2, words)


def test_positions_are_refused_where_every_row_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModelSource, "experiment", lambda *_, **__: pytest.fail("the baseline ran"))
    refused(attn("knock", "the river bank", "-m", MINILM, "-t", "bank"), 2, "for models that choose next tokens")


def test_the_key_that_the_most_needed_head_reads_is_masked(llama: Path) -> None:
    source = open_source(str(llama), predicts=True)
    prompt = source.read([TEXT])[0]
    found = knock(source, TEXT)
    experiment = source.experiment(prompt)
    (hidden,), key = found["hidden"], found["heads"][0]["key"]
    assert key != found["rows"][0]["row"]
    (expected,) = experiment.outcomes([Change(hidden=(key,))])
    assert hidden["key"] == key and hidden["bits"] == pytest.approx(expected.bits, abs=1e-4)


@pytest.mark.parametrize(("command", "most"), [("knock", 1.2), ("inspect", 1.5)])
def test_a_long_text_is_run_once_and_its_last_rows_again(
    command: str, most: float, llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[int] = []  # of each call of a block
    forward = LlamaMLP.forward

    def counted(mlp: LlamaMLP, x: torch.Tensor) -> torch.Tensor:
        rows.append(x[..., 0].numel())
        return forward(mlp, x)

    monkeypatch.setattr(LlamaMLP, "forward", counted)
    assert attn(command, " ".join(f"{TEXT} of cat {at}." for at in range(60)), "-m", llama).code == 0
    layers = rows.count(max(rows))
    assert max(rows) > 500 and layers == 2
    assert sum(rows) / (layers * max(rows)) < most


CAPITAL = "The capital of France is"
ASKED = (CAPITAL, "-m", SMOL, "-l", "-1", "--mean", "--generate", "2")


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bart")
    transformers.BartForConditionalGeneration(tiny("bart").config).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def test_words_and_numbers_pick_what_was_generated() -> None:
    by_word, by_number = (attn("top", *ASKED, "--token", pick, "--json").json["tables"] for pick in ("paris", "5"))
    assert by_word == by_number
    assert {row["query"] for row in by_word["top"]} == {5}
    last = attn("top", *ASKED, "--token", "-1", "--json").json["tables"]["top"]
    assert {row["query"] for row in last} == {6}
    for pick, rows in (("+", {5, 6}), ("+Paris", {5}), ("+.", {6})):
        assert {row["query"] for row in attn("top", *ASKED, "--token", pick, "--json").json["tables"]["top"]} == rows
    for arguments, word in (((*ASKED, "--token", "+France"), "+France"), ((*ASKED[:3], "--token", "+"), "+")):
        run = attn("top", *arguments)
        assert (run.code, run.bytes) == (2, b"")
        assert f"no token {word!r} in the text" in run.errors
    sums = attn("top", "1 + 2 +", "-m", SMOL, "-l", "0", "--mean", "--token", "+", "--json", "--quiet").json["tables"]
    assert {row["query_token"] for row in sums["top"]} == {"+"}


@pytest.mark.parametrize("command", ["inspect", "matrix", "top", "heads"])
def test_data_say_which_tokens_were_generated(command: str) -> None:
    options = () if command in ("inspect", "heads") else ("--mean",)
    run = attn(command, CAPITAL, "-m", SMOL, "-l", "-1", "--generate", "2", *options, "--json")
    hold(run, command)
    shown = run.json["input"]
    assert shown["text"] == f"{CAPITAL} Paris."
    assert shown["generated"] == {"text": " Paris.", "tokens": 2, "ended": False, "start": len(CAPITAL), "given": False}
    assert [token.get("generated") for token in shown["tokens"]] == [None] * 5 + [True] * 2
    assert all(shown["text"][token["start"] : token["end"]] == token["text"] for token in shown["tokens"])


def test_a_decoder_shows_what_it_generated_as_a_text_of_its_own(halves: Path) -> None:
    run = attn("top", "the cat sat", "-m", halves, "--generate", "3", "--json")
    hold(run, "top")
    shown = run.json["input"]
    assert shown["text"] == "the cat sat"
    decoder = shown["streams"]["decoder"]
    assert [token.get("generated", False) for token in decoder] == [False] + [True] * (len(decoder) - 1)
    assert (shown["generated"]["tokens"], shown["generated"]["start"]) == (len(decoder) - 1, None)
    assert (run.errors, run.json["warnings"]) == ("", [])
    assert "--generate N gives it more" in attn("top", "the cat sat", "-m", halves).errors


def test_wrong_use_is_an_error_of_one_line(halves: Path, tmp_path: Path) -> None:
    for number in ("0", "-3", "many"):
        refused(attn("top", CAPITAL, "-m", SMOL, "--generate", number), 2, "--generate")
    refused(attn("top", CAPITAL, "--generate", "3"), 2, "--generate is for models")
    refused(attn("top", CAPITAL, "-m", MINILM, "--generate", "3"), 2, "can't generate text", "leave out --generate")
    refused(attn("top", CAPITAL, "-m", SMOL, "--generate", "3", "--pair", "x"), 2, "--generate and --pair")
    refused(attn("top", "the cat", "-m", halves, "--generate", "64"), 4, "64 positions", "--generate 63 at most")
