"""One-line functions give what commands give; what a notebook shows is safe, whole, and labelled."""

import re
from base64 import b64decode
from html import unescape
from inspect import signature
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

import attn_cli
from attn_cli.errors import InputError
from attn_cli.sources import DEFAULT_MODEL
from attn_cli.sources.huggingface.source import source_of
from tests.architectures.tiny import tiny_model
from tests.media import tokenizer
from tests.program import attn

TEXT = "the cat sat on the mat"
TOY = "toy:the-cat-sat"


@pytest.mark.parametrize("command", ["inspect", "heads", "top", "matrix", "plane"])
def test_findings_are_those_of_the_command(command: str) -> None:
    found = getattr(attn_cli, command)("the cat sat", TOY)
    run = attn(command, "the cat sat", "-m", TOY, "--json")
    assert found.to_json() == run.text
    table = attn(command, "the cat sat", "-m", TOY, "-f", "csv").lines
    frame = found.to_pandas()
    assert list(frame.columns) == table[0].split(",") and len(frame) == len(table) - 1
    assert attn_cli.compare("a bank", "bank loan").to_json() == attn("compare", "a bank", "bank loan", "--json").text


def test_a_recording_and_a_model_of_ones_own_are_models_too(tmp_path: Path) -> None:
    model = tiny_model("bert", "tiny")
    recording = attn_cli.record(TEXT, (model, tokenizer()))
    recording.save(tmp_path / "x.attn")
    live = attn_cli.heads(TEXT, (model, tokenizer()))["heads"]
    for source in (recording, str(tmp_path / "x.attn")):
        again = attn_cli.heads(model=source)["heads"]
        for row, expected in zip(again, live, strict=True):
            assert row == pytest.approx(expected, abs=1e-5, nan_ok=True)


def test_every_result_shows_itself() -> None:
    found = attn_cli.matrix("the cat sat", TOY)
    summary = found.report.summaries[0]
    x = np.eye(3)[None]
    drawn = (found, summary.part(attn_cli.Matrix), attn_cli.attend(x, x, x, attn_cli.Rule(1.0)))
    for at, thing in enumerate((*drawn, attn_cli.heads("a river bank"), attn_cli.head_kinds(), summary)):
        bundle = thing._repr_mimebundle_()
        assert set(bundle) == {"text/plain", "text/html"}
        assert "\x1b" not in bundle["text/plain"] and max(map(len, bundle["text/plain"].splitlines())) <= 80
        images = re.findall('svg.xml;base64,([^"]+)', bundle["text/html"])
        assert [ElementTree.fromstring(b64decode(image)).get("class") for image in images] == ["attn"] * (at < 5)
        assert len(repr(thing).splitlines()) == 1 or isinstance(thing, tuple)


def test_a_recording_is_a_page_in_a_frame_of_its_own() -> None:
    recording = attn_cli.record("the cat sat", TOY)
    bundle = recording._repr_mimebundle_()
    assert bundle["text/plain"].startswith("the cat sat\n")
    frame = bundle["text/html"]
    assert frame.startswith('<iframe sandbox="allow-scripts" srcdoc="') and "allow-same-origin" not in frame
    page = unescape(frame.partition('srcdoc="')[2].partition('"')[0])
    assert page.startswith("<!DOCTYPE html>") and page.rstrip().endswith("</html>")
    assert attn_cli.inspect("the cat sat", TOY)._repr_mimebundle_()["text/html"] == frame
    assert repr(recording) == f"Recording of {TOY}: 3 tokens, 1 layer, 1 head"


def test_capture_labels_the_tokens_of_every_pass() -> None:
    model, words = tiny_model("bert", "tiny"), tokenizer()
    seen: list[list[str]] = []

    def visit(call: attn_cli.AttentionCall) -> None:
        if call.place.layer == 0:
            seen.append([token.text for token in call.queries])

    with attn_cli.capture(model, visit, tokenizer=words), torch.no_grad():
        for texts in (["the cat sat", "a photo"], ["on a cat", "the photo"]):
            ids = [words(text)["input_ids"] for text in texts]
            longest = max(map(len, ids))
            mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in ids])
            padded = torch.tensor([row + [0] * (longest - len(row)) for row in ids])
            model(input_ids=padded, attention_mask=mask)
    expected = [[words.decode([number]) for number in words(text)["input_ids"]]
                for text in ("the cat sat", "a photo", "on a cat", "the photo")]  # fmt: skip
    assert seen == expected


def test_a_head_of_a_recording_has_its_weights_and_its_figure(tmp_path: Path) -> None:
    model = tiny_model("bert", "tiny")
    recording = attn_cli.record("the <cat> sat on the \x1b[31mmat", (model, tokenizer()))
    head = recording.head(1, 1)
    live = attn_cli.matrix("the <cat> sat on the \x1b[31mmat", (model, tokenizer()), layers=1, heads=1).arrays[
        "weights"
    ]
    np.testing.assert_allclose(head.weights, live.reshape(head.weights.shape), atol=1e-6)
    np.testing.assert_allclose(head.row(-1), head.weights[-1], rtol=1e-6)
    assert repr(head).startswith("layer 1 head 1: ")
    svg = head.figure(60)
    texts = "".join(ElementTree.fromstring(svg).itertext())
    assert 'width="170.07874pt"' in svg and "layer 1 head 1" in texts and "\x1b" not in svg
    bundle = head._repr_mimebundle_()
    assert "layer 1 head 1" in bundle["text/plain"] and "<img" in bundle["text/html"]
    recording.page(tmp_path / "x.html")
    assert (tmp_path / "x.html").read_bytes().startswith(b"<!DOCTYPE html>")
    for missing in ((1, 99), (99, 0), (1, 1, "cross")):
        with pytest.raises(InputError, match=f"no head {missing[1]} in layer {missing[0]}"):
            recording.head(*missing)


def test_a_notebook_keeps_a_screen_and_not_all_maps_of_all_heads() -> None:
    words = "he sat on the river bank by the old mill and then he went home to the old town by the river "
    shown = attn_cli.matrix(words * 3 + "/")._repr_mimebundle_()  # and no path, which it is too long for
    assert sum(map(len, shown.values())) < 500_000
    lines = shown["text/plain"].strip().splitlines()
    assert len(lines) == 81 and re.search("… [0-9,]+ lines more: layers= and heads= choose", lines[-1])


def test_errors_and_help_speak_of_arguments() -> None:
    refused: list[tuple[str, list[Any], dict[str, Any], str]] = [
        ("heads", ["river bank"], {"head": 3}, "no argument is called 'head'\ndid you mean 'heads'?"),
        ("heads", [3], {}, "text is a str, and not int\nthe text comes first, then the model"),
        ("compare", [["a"], "b"], {}, "text is a str, and not list\nthe texts come first, one by one, then the model"),
        ("inspect", [TEXT, 5], {}, "model is of type int\ngive a name, (model, tokenizer) or a recording"),
        ("head_kinds", ["/"], {}, "the text is a path: /\na model's? write model='/'"),
        ("top", ["bank"], {"generate": 3}, "generate= is for models, and toy is a table\nchoose a model with model="),
        ("compare", ["a", "b"], {}, "which word? give word=WORD\nthey share no word: give word= once for each text"),
    ]
    for name, given, options, said in refused:
        function = getattr(attn_cli, name)
        assert {"model", "tokenizer", "layers", "heads", "device", "dtype"} < {*signature(function).parameters}
        with pytest.raises(InputError) as raised:
            function(*given, **options)
        assert str(raised.value) == said


def test_a_model_of_ones_own_is_taken_with_its_tokenizer_in_any_place() -> None:
    model, words = tiny_model("bert", "tiny"), tokenizer()
    expected = attn_cli.heads(TEXT, (model, words)).to_json()
    for given in (
        {"model": (words, model)},
        {"model": model, "tokenizer": words},
        {"model": (model,), "tokenizer": words},
    ):
        assert attn_cli.heads(TEXT, **given).to_json() == expected
    for without in (model, (model,), (words,), (model, model)):
        with pytest.raises(InputError, match=r"(?s)needs its tokenizer.*pass \(model, tokenizer\)"):
            attn_cli.inspect(TEXT, without)


def test_experiments_take_the_text_and_then_the_model() -> None:
    own = (tiny_model("gpt2", "tiny"), tokenizer())
    source = source_of(*own, predicts=True)
    prompt = source.read([TEXT])[0]
    for model in (own, source):
        knocked = attn_cli.knock(TEXT, model, layers=1, heads=[0, 2])
        assert len(knocked["heads"]) == 2 and "<img" in knocked._repr_mimebundle_()["text/html"]
        assert attn_cli.head_kinds(TEXT, model, layers=0).arrays["layer"].tolist() == [0] * 4
        assert len(attn_cli.read_parts(TEXT, model, parts="words")["parts"]) > 1
    assert attn_cli.knock(prompt, source, heads="1.3")["heads"][0]["layer"] == 1
    assert len(attn_cli.knock(TEXT, own, heads="1.0,1.2", together=True)["together"]) == 1
    read = [
        attn_cli.read_parts(prompt, source, parts=attn_cli.parts_of(prompt, "words"))["parts"],
        attn_cli.read_parts(TEXT, own, parts="words")["parts"],
    ]
    assert list(read[0]) == list(read[1]) and read[0][0]["hidden_bits"] is not None
    for alone in (attn_cli.head_kinds(model=attn_cli.open_source()), attn_cli.head_kinds(model=DEFAULT_MODEL)):
        assert alone["prompts"][0]["seed"] == 0 and len(alone["kinds"]) > 1  # no text is needed
