"""--generate: generated tokens are marked on screens and in data, and picked by their words; wrong use is an error."""

from pathlib import Path

import pytest
import transformers

from tests.cli.test_words import pieces_tokenizer
from tests.media import tokenizer
from tests.program import attn, refused, strict_json
from tests.real_models import MINILM, SMOL
from tests.sources.huggingface.models import tiny
from tests.views.test_schemas import hold

pytestmark = pytest.mark.usefixtures("loads_once")

TEXT = "The capital of France is"
ASKED = (TEXT, "-m", SMOL, "-l", "-1", "--mean", "--generate", "2")


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
    run = attn(command, TEXT, "-m", SMOL, "-l", "-1", "--generate", "2", *options, "--json")
    hold(run, command)
    shown = run.json["input"]
    assert shown["text"] == f"{TEXT} Paris."
    assert shown["generated"] == {"text": " Paris.", "tokens": 2, "ended": False, "start": len(TEXT), "given": False}
    assert [token.get("generated") for token in shown["tokens"]] == [None] * 5 + [True] * 2
    assert all(shown["text"][token["start"] : token["end"]] == token["text"] for token in shown["tokens"])


def test_every_line_has_an_answer_of_its_own() -> None:
    lines = b"The capital of France is\nOne two three four\n"
    run = attn("top", "--lines", "-m", SMOL, "-l", "0", "--mean", "--generate", "3", "--json", stdin=lines)
    hold(run, "top")
    found = [strict_json(line)["input"] for line in run.bytes.splitlines()]
    assert [shown["generated"]["tokens"] for shown in found] == [3, 3]
    assert found[0]["generated"]["text"].startswith(" Paris.")
    assert found[1]["generated"]["text"] != found[0]["generated"]["text"]


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
        refused(attn("top", TEXT, "-m", SMOL, "--generate", number), 2, "--generate")
    refused(attn("top", TEXT, "--generate", "3"), 2, "--generate is for models")
    refused(attn("top", TEXT, "-m", MINILM, "--generate", "3"), 2, "can't generate text", "leave out --generate")
    refused(attn("top", TEXT, "-m", SMOL, "--generate", "3", "--pair", "x"), 2, "--generate and --pair")
    refused(attn("top", "the cat", "-m", halves, "--generate", "64"), 4, "64 positions", "--generate 63 at most")


def test_a_word_of_several_tokens_is_found_in_what_a_decoder_reads(tmp_path: Path) -> None:
    tiny("t5").save_pretrained(tmp_path)
    pieces_tokenizer().save_pretrained(tmp_path)
    asked = ("top", "the cat", "-m", tmp_path, "--pair", "la chatte", "--json", "--token")
    for word, rows in (("chatte", {3, 4, 5, 6, 7, 8}), ("chatte#1", {3, 4, 5, 6, 7, 8}), ("la", {1, 2})):
        found = attn(*asked, word).json["tables"]["top"]
        assert {row["query"] for row in found if row["stream"] != "encoder"} == rows
