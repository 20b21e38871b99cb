"""attn parts --anchors: the sentences that later ones rest on, in every format; wrong use is an error."""

import json
from pathlib import Path

import pytest

from tests.cli.test_parts import FACTS, PARROT, SMOL
from tests.program import attn, refused
from tests.real_models import MINILM
from tests.views.test_schemas import hold

pytestmark = pytest.mark.usefixtures("loads_once")

QUESTION = "A harbour has 12 boats and each boat carries 4 nets."
TRACE = (
    "How many nets are there after 6 are sold? There are 12 boats with 4 nets each, so there are 48 nets. "
    "The weather at sea is often rough. Then 6 nets are sold. So 48 minus 6 is 42. Coffee is free. The answer is 42."
)
SHORT = "So 48 minus 6 is 42. The answer is 42."
STEP = 5  # sentence that the last one repeats, from 0


def test_the_last_sentence_rests_on_the_step_that_it_repeats() -> None:
    run = attn("parts", f"{QUESTION} {TRACE}", "-m", SMOL, "--anchors", "--json")
    hold(run, "anchors")
    sentences = run.json["result"]["sentences"]
    assert [x["sentence"] for x in sentences] == list(range(8)) and sentences[STEP]["text"] == "So 48 minus 6 is 42."
    assert min(sentences[:-1], key=lambda x: x["answer_bits"])["sentence"] == STEP
    assert 7 in [x["sentence"] for x in sentences[STEP]["needed_by"]]
    weather = sentences[3]
    assert sentences[-1]["bits"] is None and {x["sentence"] for x in weather["needed_by"]} <= {6}  # the other aside


def test_a_given_answer_and_the_last_message_of_a_chat_are_traces(tmp_path: Path) -> None:
    """Sentences of both are those of the text; a chat's template is none."""
    given = attn("parts", QUESTION, "-m", SMOL, "--anchors", "--answer", SHORT, "--json").json["result"]["sentences"]
    whole = attn("parts", f"{QUESTION} {SHORT}", "-m", SMOL, "--anchors", "--json").json["result"]["sentences"]
    assert [x["answer_bits"] for x in given] == pytest.approx([x["answer_bits"] for x in whole], abs=1e-3)
    assert len(whole) == 3 and max(abs(x["answer_bits"]) for x in whole[:-1]) > 0.5
    file = tmp_path / "chat.json"
    file.write_text(json.dumps([{"role": "user", "content": QUESTION}, {"role": "assistant", "content": SHORT}]))
    chat = attn("parts", "--messages", file, "-m", SMOL, "--anchors", "--json").json["result"]["sentences"]
    assert [x["text"] for x in chat] == [x["text"] for x in whole]


def test_rows_of_sentences_and_a_narrow_screen(llama: Path) -> None:
    lines = attn("parts", PARROT, "-m", llama, "--anchors", "--cut", "lines", "-f", "csv").lines
    assert lines[0].startswith("sentence,text,") and len(lines) == 8
    environment = {"COLUMNS": "40", "NO_COLOR": "1"}
    narrow = attn("parts", PARROT, "-m", llama, "--anchors", "--cut", "lines", terminal=True, env=environment)
    assert max(map(len, narrow.lines)) <= 40 and "the last sentence, 7" in narrow.text


def test_what_anchors_refuse(llama: Path) -> None:
    refused(attn("parts", FACTS, "--anchors"), 2, "--anchors needs a model that writes text")
    minilm = MINILM
    refused(attn("parts", FACTS, "-m", minilm, "--anchors"), 2, "--anchors needs a model that writes text")
    refused(attn("parts", "One sentence", "-m", llama, "--anchors"), 2, "two sentences or more")
    refused(attn("parts", FACTS, "-m", llama, "--anchors", "--cite"), 2, "--anchors and --cite at once")
