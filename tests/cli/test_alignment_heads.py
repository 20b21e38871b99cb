"""Alignment heads are found by what they hear: one that counts frames is none, however straight it goes."""

import json
import re
from pathlib import Path

import pytest

from tests.planted_whisper import COUNTS, HEARS, SECONDS, SPOKEN, planted_whisper, spoken_file
from tests.program import attn, refused
from tests.views.test_schemas import hold

FRAME = 0.02
TEXT = " ".join(SPOKEN)


@pytest.fixture(scope="module")
def heard(tmp_path_factory: pytest.TempPathFactory) -> tuple[object, ...]:
    place = tmp_path_factory.mktemp("planted")
    asked = ("-m", planted_whisper(place / "whisper"), "--audio", spoken_file(place / "spoken.wav"))
    return (*asked, "--decoder-text", TEXT)


def test_the_head_that_hears_is_named_and_the_one_that_counts_is_not(heard: tuple[object, ...]) -> None:
    run = attn("heads", "--kinds", *heard, "--json")
    hold(run, "kinds")
    result = run.json["result"]
    assert result["alignment_heads"] == [[*HEARS]]
    heads = {(head["layer"], head["head"]): head for head in result["alignment"]}
    assert len(heads) == 8 and [head["follows"] for head in result["alignment"]] == [True, *[False] * 7]
    hears, counts = heads[HEARS], heads[COUNTS]
    assert hears["correlation"] > 0.98 and hears["spread"] < 0.1 and hears["reversed_correlation"] < 0
    assert counts["correlation"] > 0.98 and counts["spread"] < 0.2
    # the other numbers of its vectors move with the audio
    assert counts["reversed_correlation"] == pytest.approx(counts["correlation"], abs=0.01)


def test_kinds_print_them_as_generation_config_has_them(heard: tuple[object, ...]) -> None:
    lines = attn("heads", "--kinds", *heard).lines
    (line,) = [line for line in lines if line.startswith('"alignment_heads"')]
    assert json.loads(f"{{{line}}}") == {"alignment_heads": [[*HEARS]]}
    again = attn("heads", "--kinds", *heard).lines  # a run that is kept can't be held against other audio
    assert again == lines
    assert not any("alignment" in line for line in attn("heads", *heard).lines)


def test_words_begin_and_end_where_they_were_planted(heard: tuple[object, ...]) -> None:
    run = attn("top", *heard, "--times", "--json")
    result = run.json["result"]
    assert result["chosen_by"] == "found"
    assert [(head["layer"], head["head"]) for head in result["heads"]] == [HEARS]
    assert [word["word"] for word in result["words"]] == list(SPOKEN)
    for at, word in enumerate(result["words"]):
        assert abs(word["start_seconds"] - at * SECONDS) <= FRAME + 1e-6, word
        assert abs(word["end_seconds"] - (at + 1) * SECONDS) <= FRAME + 1e-6, word


@pytest.mark.parametrize("suffix", ["srt", "vtt"])
def test_a_player_gets_the_words_in_lines(suffix: str, heard: tuple[object, ...], tmp_path: Path) -> None:
    file = tmp_path / f"words.{suffix}"
    run = attn("top", *heard, "--times", "-o", file)
    assert run.code == 0, run.errors
    text = file.read_text("utf-8")
    assert text.startswith("WEBVTT\n\n1\n") == (suffix == "vtt")
    point = r"\." if suffix == "vtt" else ","
    clock = rf"00:00:0(\d){point}(\d\d\d)"
    (cue,) = re.findall(rf"1\n{clock} --> {clock}\n(.*)\n", text)
    start, end = int(cue[0]) + int(cue[1]) / 1000, int(cue[2]) + int(cue[3]) / 1000
    assert abs(start) <= FRAME and abs(end - len(SPOKEN) * SECONDS) <= FRAME + 1e-6
    assert cue[4] == TEXT
    refused(attn("top", "river bank", "-f", suffix), 2, f"{suffix} holds words with their times", "attn top --times")
