"""Every command on a recording equals the command on the model: real models and tiny ones with every kind of rule."""

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from attn_cli import sources
from attn_cli.cli.kit.options import command as command_options
from attn_cli.cli.kit.run import text_run
from attn_cli.sources.huggingface.source import ModelSource
from tests.architectures.tiny import tiny_source
from tests.media import tokenizer
from tests.program import attn, refused

TEXT = "the cat sat on a photo the cat sat"
TOLERANCE = 5e-6
LAYERS = {"minilm": "1,5", "smollm": "1,29"}
KINDS = {
    "gemma2": "softcap and window",
    "gpt_oss": "learned sinks",
    "t5": "encoder-decoder, bias",
    "deepseek_v3": "latent keys",
    "bloom": "weights alone, ALiBi",
    "bart": "encoder-decoder",
}


def live(kind: str) -> ModelSource:
    source = tiny_source(kind)
    about = {"model": kind, "type": kind, "revision": None, "dtype": "float32", "device": "cpu"}
    return ModelSource(replace(source.loaded, tokenizer=tokenizer(), about=about))


@pytest.fixture(params=["minilm", "smollm", *KINDS])
def source(request: pytest.FixtureRequest) -> ModelSource:
    if request.param in KINDS:
        return live(request.param)
    return ModelSource(request.getfixturevalue(request.param))


@pytest.fixture
def opened(source: ModelSource) -> Iterator[None]:
    """`-m live` means the source, loaded once; all else what it always means."""

    def open_source(model: str, **options: Any) -> Any:
        return source if model == "live" else sources.open_source(model, **options)

    with mock.patch.object(command_options, "open_source", open_source):
        yield


def assert_close(one: Any, other: Any, where: str = "$") -> None:
    assert type(one) is type(other) or {type(one), type(other)} == {int, float}, where
    if isinstance(one, dict):
        assert list(one) == list(other), where
        for name in one:
            assert_close(one[name], other[name], f"{where}.{name}")
    elif isinstance(one, list):
        assert len(one) == len(other), where
        for at, pair in enumerate(zip(one, other, strict=True)):
            assert_close(*pair, f"{where}[{at}]")
    elif isinstance(one, float):
        assert abs(one - other) <= TOLERANCE + 1e-4 * abs(other), where
    else:
        assert one == other, where


@pytest.mark.usefixtures("opened")
def test_commands_on_a_recording_equal_those_on_the_model(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    file = tmp_path / "x.attn"
    layers = ["-l", LAYERS.get(request.node.callspec.params["source"], "all")]
    made = attn("heads", TEXT, "-m", "live", *layers, "-o", file)
    assert made.code == 0, made.errors
    commands = [["heads"], ["inspect"], ["top", "-t", "cat#1", "-k", "3"], ["matrix", "-l", "-1", "-H", "1"]]
    if "gemma2" in request.node.name:
        commands += [
            ["top", "--overall"],
            ["top", "--words", "--mean"],
            ["heads", "--hide", "cat"],
            ["matrix", "--mean"],
        ]
    for arguments in commands:
        arguments += [] if "-l" in arguments else layers
        first = attn(arguments[0], TEXT, "-m", "live", *arguments[1:], "--json")
        again = attn(arguments[0], "-m", file, *arguments[1:], "--json")
        assert (first.code, again.code) == (0, 0), (arguments, first.errors, again.errors)
        assert_close(again.json, first.json)


@pytest.mark.usefixtures("opened")
@pytest.mark.parametrize("source", ["gemma2"], indirect=True)
def test_chosen_layers_and_heads_are_kept_under_their_numbers(tmp_path: Path) -> None:
    file = tmp_path / "x.attn"
    assert attn("inspect", TEXT, "-m", "live", "-l", "1", "-H", "1,3", "-o", file).code == 0
    first = attn("matrix", TEXT, "-m", "live", "-l", "1", "-H", "3", "-f", "npz")
    again = attn("matrix", "-m", file, "-l", "1", "-H", "3", "-f", "npz")
    arrays = [np.load(io.BytesIO(run.bytes)) for run in (first, again)]
    assert sorted(arrays[0].files) == sorted(arrays[1].files)
    np.testing.assert_allclose(arrays[1]["weights"], arrays[0]["weights"], atol=TOLERANCE)
    refused(attn("heads", "-m", file, "-l", "0"), 2, "no attention layer 0", "1")
    refused(attn("heads", "-m", file, "-H", "2"), 2, "head 2 of layer 1 was not recorded", "1, 3")


@pytest.mark.usefixtures("opened")
@pytest.mark.parametrize("source", ["gemma2"], indirect=True)
def test_what_takes_the_model_says_so(tmp_path: Path) -> None:
    file = tmp_path / "x.attn"
    assert attn("top", TEXT, "-m", "live", "-o", file).code == 0
    for words in (["top", "--by", "output"],
                  ["knock"], ["top", "--generate", "2"], ["heads", "--pair", "a cat"],
                  ["heads", "another text"]):  # fmt: skip
        run = attn(words[0], *words[1:], "-m", file)
        refused(run, 2)
        assert "-m " in run.errors or "model" in run.errors or "leave out" in run.errors
    refused(attn("heads", file), 2, "is a file, not a text", "-m ")


@pytest.mark.usefixtures("opened")
@pytest.mark.parametrize("source", ["gemma2"], indirect=True)
def test_short_memory_keeps_the_numbers_of_all_layers(tmp_path: Path) -> None:
    file = tmp_path / "x.attn"
    one_layer = 2 * 4 * (4 + 2) * len(TEXT.split()) * 8  # twice the bytes of q and k of a layer, or a bit more
    with mock.patch.object(text_run, "free_memory", lambda: 2 * one_layer):
        run = attn("heads", TEXT, "-m", "live", "-o", file)
    assert run.code == 0 and "layers 1 are kept with their numbers" in run.errors, run.errors
    assert attn("heads", "-m", file, "-l", "0").code == 0
    refused(attn("heads", "-m", file, "-l", "1"), 4, "without queries and keys", "-l 1")
    assert attn("heads", TEXT, "-m", "live", "-o", file).code == 5  # it exists
    assert attn("heads", TEXT, "-m", "live", "-o", file, "--force").code == 0
