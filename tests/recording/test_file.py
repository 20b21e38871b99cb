"""A recording comes back from its file as it was, to the bit; what is no recording is refused in one line."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from attn_cli.attention_call import Ingredients
from attn_cli.errors import LoadError, OutputError
from attn_cli.prompt import Generated, Prompt, Token, Word
from attn_cli.recording import RecordedLayer, Recording
from attn_cli.recording.file import chunks
from attn_cli.summaries.reducers.record import recorded
from tests.recording.test_layer import call_of
from tests.strategies import Problem, problems

ABOUT = {"model": "tiny", "type": "test", "revision": None, "dtype": "float64", "device": "cpu"}
ARRAYS = ("q", "k", "seen", "log_sums", "received", "value_norms", "residual_norms")


def recording_of(problem: Problem, **prompt: object) -> Recording:
    call = call_of(problem)
    norms = np.arange(call.m) + 0.5
    call = replace(call, ingredients=Ingredients(residual_lengths=lambda: norms))
    return Recording(ABOUT, Prompt("0 1", call.keys, **prompt), (recorded(call),))


def saved(recording: Recording, path: Path) -> Recording:
    path.write_bytes(b"".join(chunks(recording)))
    return Recording.load(path)


def assert_same(layer: RecordedLayer, other: RecordedLayer) -> None:
    assert (layer.place, layer.queries, layer.keys) == (other.place, other.queries, other.keys)
    for name in ARRAYS:
        one, two = getattr(layer, name), getattr(other, name)
        assert one is two is None or (one.dtype == two.dtype and one.tobytes() == two.tobytes()), name
    assert list(layer.statistics) == list(other.statistics)
    for name, values in layer.statistics.items():
        assert np.array_equal(values, other.statistics[name], equal_nan=True)
    every = (slice(0, layer.n), slice(0, layer.m))
    for head in range(layer.h):
        assert layer.scores(head, *every).tobytes() == other.scores(head, *every).tobytes()
        assert layer.weights(head, *every).tobytes() == other.weights(head, *every).tobytes()
    assert layer.rule.describe() == other.rule.describe()


@settings(max_examples=30)
@given(problems(raw=True))
def test_a_recording_comes_back_to_the_bit(problem: Problem) -> None:
    path = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path("/tmp")
    import tempfile

    with tempfile.TemporaryDirectory(dir=path) as folder:
        recording = recording_of(problem)
        again = saved(recording, Path(folder) / "x.attn")
    assert_same(recording.layers[0], again.layers[0])


def test_prompts_come_back_whole(tmp_path: Path) -> None:
    word = Word("river\ud800")
    tokens = (
        Token(0, "riv", 7, 0, 3, word=word),
        Token(1, "er\x1b[31m", 8, 3, 5, word=word, generated=True),
        Token(2, "", None, special=True, row=1, column=2, image=2),
    )
    prompt = Prompt(
        "river",
        tokens,
        ("a note",),
        {"decoder": tokens[:1]},
        {"image": "a.png"},
        Generated("er", 1, True, 3, given=True),
    )
    again = saved(Recording(ABOUT, prompt, ()), tmp_path / "x.attn").prompt
    assert (again.text, again.tokens, again.warnings) == (prompt.text, prompt.tokens, prompt.warnings)
    assert (again.others, again.files, again.generated) == (prompt.others, prompt.files, prompt.generated)
    assert again.tokens[0].word is again.tokens[1].word is again.others["decoder"][0].word
    assert again.tokens[0].word.text == word.text and again.tokens[2].word is None


def test_a_pipe_or_device_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    recording = Recording(ABOUT, Prompt("", ()), ())
    with pytest.raises(OutputError, match="pipe is not a file"):
        recording.save(tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "truncated"),
        (b"\xff" * 40, "truncated"),
        ((10**7).to_bytes(8, "little") + b"[" * 10**7, "not JSON"),
        ((2).to_bytes(8, "little") + b"[]", "not a JSON object"),
        ((2).to_bytes(8, "little") + b"{}", "no metadata"),
        ((37).to_bytes(8, "little") + b'{"__metadata__":{"format":"pt"}}     ', "tensors, not a recording"),
    ],
    ids=["empty", "noise", "nested", "list", "bare", "a model"],
)
def test_what_is_wrong_is_said(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "x.attn").write_bytes(content)
    with pytest.raises(LoadError, match=said):
        Recording.load(tmp_path / "x.attn")
