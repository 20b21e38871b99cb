"""Subtitles: lines that a player shows, short, in order, and with nothing of a file's own in them."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.prompt import Token
from attn_cli.summaries.answers.word_times import SpokenWord
from attn_cli.views.writers.subtitles import subtitles


def spoken(*words: tuple[str, float, float]) -> list[SpokenWord]:
    return [SpokenWord(Token(at, text), text, start, end) for at, (text, start, end) in enumerate(words)]


def lines(words: list[SpokenWord]) -> list[str]:
    return [cue.split("\n", 2)[2].strip() for cue in subtitles(words, vtt=False).split("\n\n")]


def test_a_line_ends_with_a_sentence_a_pause_its_length_and_its_time() -> None:
    assert lines(spoken(("He", 0, 0.2), ("sat.", 0.2, 0.5), ("Then", 0.5, 0.8), ("rose", 0.8, 1))) == [
        "He sat.",
        "Then rose",
    ]
    assert lines(spoken(("one", 0, 0.2), ("two", 1.0, 1.2))) == ["one", "two"]
    assert lines(spoken(("one", 0, 0.2), ("two", 0.9, 1.2))) == ["one two"]
    assert lines(spoken(*((f"word{at:02}", at * 0.1, at * 0.1 + 0.1) for at in range(12)))) == [
        " ".join(f"word{at:02}" for at in range(start, min(start + 6, 12))) for start in (0, 6)
    ]
    assert lines(spoken(*((str(at), at, at + 1) for at in range(8)))) == ["0 1 2 3 4 5", "6 7"]


def test_scripts_without_blanks_have_none() -> None:
    assert lines(spoken(("猫", 0, 0.2), ("が", 0.2, 0.4), ("sat", 0.4, 0.6))) == ["猫が sat"]


def test_marks_of_the_format_stand_for_themselves() -> None:
    words = spoken(("<i>a</i>", 0, 1), ("&", 1, 1.5), ("b\x1b[31m\n\n7", 1.5, 2))
    assert "&lt;i&gt;a&lt;/i&gt; &amp; b" in subtitles(words, vtt=True)
    for vtt in (False, True):
        text = subtitles(words, vtt=vtt)
        assert "\x1b" not in text
        assert text.count("-->") == 1 and text.strip().count("\n\n") == int(vtt)


@pytest.mark.parametrize("vtt", [False, True])
@given(st.lists(st.tuples(st.text("ab .", min_size=1, max_size=9), st.floats(0, 2), st.floats(0, 3)), max_size=30))
def test_every_line_ends_after_it_begins_and_before_the_next(vtt: bool, parts: list[tuple[str, float, float]]) -> None:
    words, now = [], 0.0
    for text, length, pause in parts:
        words.append((text, round(now, 2), round(now + length, 2)))
        now += length + pause + 0.02
    text = subtitles(spoken(*words), vtt=vtt)
    clock = r"(\d\d):(\d\d):(\d\d)[.,](\d\d\d)"
    times = [[int(x) for x in found] for found in re.findall(rf"{clock} --> {clock}", text)]
    seconds = [[((h * 60 + m) * 60 + s) * 1000 + t for h, m, s, t in (each[:4], each[4:])] for each in times]
    assert all(start < end for start, end in seconds)
    assert all(before[1] <= after[0] for before, after in pairwise(seconds))
    kept = "".join(line for line in text.split("\n") if not re.fullmatch(rf"\d+|WEBVTT|{clock} --> {clock}|", line))
    assert kept.replace(" ", "") == "".join(word for word, _, _ in words).replace(" ", "")
