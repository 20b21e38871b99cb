"""Words with start and end in audio: the frames that transformers finds for the same tokens and heads."""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoFeatureExtractor, AutoTokenizer, WhisperForConditionalGeneration
from transformers.generation.utils import GenerateEncoderDecoderOutput

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call, Place
from attn_cli.errors import InputError
from attn_cli.kernel.definition.rule import Rule
from attn_cli.model.alignment import AlignmentHeads
from attn_cli.prompt import Prompt, Token, Word
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.read.media import read_audio
from attn_cli.summaries.answers.time_path import first_frames, motion
from attn_cli.summaries.answers.word_times import WordTimes, word_times
from tests.media import RATE, audio_file
from tests.program import attn, refused
from tests.views.test_schemas import hold

Seeing = Callable[[str], Path]
HEADS = [[0, 1], [1, 0], [1, 3]]
TEXT = "the cat sat what is here of a photo"


@pytest.fixture(scope="module")
def naming(seeing: Seeing, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Whisper whose generation_config names alignment heads."""
    folder = Path(shutil.copytree(seeing("whisper"), tmp_path_factory.mktemp("times") / "whisper"))
    file = folder / "generation_config.json"
    settings = json.loads(file.read_text()) | {"alignment_heads": HEADS}
    settings.pop("_from_model_config")  # of settings that say no more than the model's configuration
    file.write_text(json.dumps(settings))
    return folder


@pytest.fixture(scope="module")
def tone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return audio_file(tmp_path_factory.mktemp("sound") / "tone.wav", seconds=0.62)


@torch.no_grad()
def theirs(folder: Path, tone: Path, heads: Any, text: str, start: int) -> list[float]:
    """The time of every row from `start` on as transformers has it, its tokens before being the prompt."""
    model = WhisperForConditionalGeneration.from_pretrained(folder, attn_implementation="eager").eval()
    audio = AutoFeatureExtractor.from_pretrained(folder)(
        read_audio(str(tone)).samples, sampling_rate=RATE, return_tensors="pt", return_attention_mask=True
    )
    ids = torch.tensor([[1, *AutoTokenizer.from_pretrained(folder)(text, add_special_tokens=False)["input_ids"]]])
    out = model(input_features=audio["input_features"], decoder_input_ids=ids, output_attentions=True)
    generated = GenerateEncoderDecoderOutput(sequences=ids, cross_attentions=(out.cross_attentions,))
    frames = int(audio["attention_mask"].sum())
    times = model._extract_token_timestamps(generated, heads, num_frames=frames, num_input_ids=start)
    return [float(time) for time in times[0, start : ids.shape[1]]]


@pytest.mark.parametrize(("text", "start"), [(TEXT, 0), ("<|see|> the photo of a cat", 1), ("the cat", 0)])
@pytest.mark.parametrize("heads", [HEADS, [[0, 2]]])
def test_words_begin_and_end_in_the_frames_that_transformers_finds(
    heads: list[list[int]], text: str, start: int, naming: Path, tone: Path
) -> None:
    named = [] if heads == HEADS else ["-H", ",".join(f"{layer}.{head}" for layer, head in heads)]
    run = attn("top", "-m", naming, "--audio", tone, "--decoder-text", text, "--times", "--json", *named)
    hold(run, "word_times")
    shown = run.json["result"]
    times = theirs(naming, tone, heads, text, start)
    words = text.removeprefix("<|see|>").split()
    assert [word["word"] for word in shown["words"]] == words
    assert [word["query"] for word in shown["words"]] == list(range(start + 1, start + 1 + len(words)))
    np.testing.assert_allclose([word["start_seconds"] for word in shown["words"]], times[:-1], atol=1e-5)
    np.testing.assert_allclose([word["end_seconds"] for word in shown["words"]], times[1:], atol=1e-5)
    assert [[head["layer"], head["head"]] for head in shown["heads"]] == heads
    assert shown["chosen_by"] == ("named" if named else "generation_config")
    assert (shown["frames"], shown["frame_seconds"], shown["filter_width"]) == (31, pytest.approx(0.02), 7)


def test_a_screen_says_heads_and_what_start_and_end_are(naming: Path, tone: Path) -> None:
    asked = ("top", "-m", naming, "--audio", tone, "--decoder-text", TEXT + "?", "--times")
    words = attn(*asked, "--json").json["result"]["words"]
    assert words[-1]["word"] == "photo?"
    for columns in ("40", "80"):
        run = attn(*asked, terminal=True, env={"COLUMNS": columns, "NO_COLOR": "1"})
        assert run.columns <= int(columns)
        rows = [line.split()[:3] for line in run.lines if line.startswith("     0.")]
        assert rows == [[f"{w['start_seconds']:.2f}", f"{w['end_seconds']:.2f}", w["word"]] for w in words]
        flat = " ".join(run.text.split())
        assert "cross-attention of heads 0.1 1.0 1.3" in flat
        assert "named by generation_config" in flat
        assert "start: where the row that predicts the word's first token begins" in flat
        assert "next: attn matrix " in flat or columns == "40"  # where it would take too many lines
    rows = attn(*asked, "-f", "csv").lines
    assert rows[0] == "query,word,start_seconds,end_seconds"
    assert len(rows) == 1 + len(words)


def test_what_has_no_word_times_is_refused_in_a_line(seeing: Seeing, naming: Path, tone: Path) -> None:
    heard = ("top", "-m", naming, "--audio", tone, "--times")
    refused(attn("top", "-m", naming, "--times"), 2, "--times needs audio")
    refused(attn("top", "-m", seeing("wav2vec2"), "--audio", tone, "--times"), 2, "has no cross-attention to the audio")
    refused(attn(*heard, "-q"), 2, "the decoder read no word", "--decoder-text")
    refused(attn(*heard, "--decoder-text", "the cat", "-H", "1.9"), 2, "there is no head 1.9")
    refused(attn(*heard, "--decoder-text", "the cat", "--mean"), 2, "--times and --mean at once")
    refused(attn("top", "the cat", "--audio", tone, "--times"), 2, "table of word vectors")
    unnamed = ("top", "-m", seeing("whisper"), "--audio", tone, "--times", "-q", "--decoder-text")
    refused(attn(*unnamed, "cat"), 2, "2 rows are too few to find heads", "-H 1.2")
    refused(attn(*unnamed, TEXT), 2, "no head follows the audio", "correlation")


def by_loops(matrix: np.ndarray) -> tuple[float, list[int]]:
    """The largest sum of a path through a matrix, and where it enters each row, cell by cell."""
    best: dict[tuple[int, int], tuple[float, tuple[int, int]]] = {}
    for i, j in np.ndindex(matrix.shape):
        both, row, frame = ((i - 1, j - 1), (i - 1, j), (i, j - 1))
        before = (-1, -1) if (i, j) == (0, 0) else frame
        sums = {place: best[place][0] for place in (both, row, frame) if place in best}
        for place in (both, row):
            if place in sums and all(sums[place] > other for at, other in sums.items() if at != place):
                before = place
        best[i, j] = (sums.get(before, 0.0) + matrix[i, j], before)
    entered, place = [0] * len(matrix), (matrix.shape[0] - 1, matrix.shape[1] - 1)
    while place != (-1, -1):
        entered[place[0]] = place[1]
        place = best[place][1]
    return best[matrix.shape[0] - 1, matrix.shape[1] - 1][0], entered


@pytest.mark.parametrize("shape", [(1, 1), (1, 6), (5, 1), (2, 3), (7, 30), (9, 4)])
def test_a_path_is_that_of_dense_loops(shape: tuple[int, int]) -> None:
    random = np.random.default_rng(7)
    for _ in range(10):
        for matrix in (random.normal(size=shape), random.integers(-2, 3, shape).astype(float)):
            assert first_frames(matrix).tolist() == by_loops(matrix)[1]


class Planted:
    """A source of one layer of cross-attention: heads that go some frames a row, or stand still."""

    about = {"model": "planted", "type": "planted"}  # noqa: RUF012
    batch_size = 1
    alignment = AlignmentHeads((), 7)

    def __init__(self, steps: Sequence[float]) -> None:
        self.steps = steps

    def each(self, prompts: Sequence[Prompt], selection: Selection, visit: Callable[[Call], None], **_: bool) -> None:
        queries, keys = prompts[0].others["decoder"], prompts[0].tokens
        heads = selection.pick_heads(len(self.steps), 0, 1)
        at = np.array([float(key.index) for key in keys])
        # scores -(j - step i)² / 18, but for what is the same in a row
        q = np.array([[[self.steps[head] * i / 9, 1 / 9] for i in range(len(queries))] for head in heads])
        k = np.stack([at, -at * at / 2], axis=-1)[None].repeat(len(heads), axis=0)
        visit(AttentionCall(q, k, k, Rule(1.0), Place(0, "cross", heads, heads, "cross"), queries, keys))

    def with_frames(self, prompt: Prompt, order: Sequence[int]) -> Prompt:
        """What is heard at a frame moves with it."""
        return replace(prompt, tokens=tuple(prompt.tokens[at] for at in order))

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: pytest.fail(name)


def planted_times(steps: Sequence[float], seconds: float) -> WordTimes:
    frames = tuple(Token(at, f"{at * 0.02:.2f}s") for at in range(40))
    words = tuple(
        Token(at, text, at, word=Word(text)) for at, text in enumerate(["zero", "one", "two", "three", "four", "five"])
    )
    start = (Token(0, "<s>", 0, special=True), *words[1:])
    return word_times(Planted(steps), Prompt("", frames, others={"decoder": start}, seconds=seconds))


def test_heads_that_go_on_with_the_audio_are_found() -> None:
    """Row i of a head of 6 frames a row is around frame 6i, which it enters at 6i - 3."""
    times = planted_times([0, 6, 0.2, 6, -6], 0.66)
    assert [head.place.head for head in times.heads] == [1, 3]
    assert times.chosen_by == "found"
    assert all(head.motion.correlation > 0.99 and head.motion.travel > 0.8 for head in times.heads)
    assert times.frames == 33
    for at, word in enumerate(times.words):
        assert abs(word.start - max(0, 6 * at - 3) * 0.02) <= 0.021, word
        assert abs(word.end - (6 * at + 3) * 0.02) <= 0.021, word
    with pytest.raises(InputError, match="no head follows the audio"):
        planted_times([0, 0.2, -6], 0.66)


def test_a_head_that_stands_still_has_no_motion() -> None:
    assert motion(np.full(5, 3.0), 40) == (0.0, 0.0)
    assert motion(np.arange(5)[::-1] * 2.0, 16) == pytest.approx((-1.0, -0.5))
