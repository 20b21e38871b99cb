"""The screen of attn parts: no line is wider than the screen, also of a part that leads and holds a sink."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from attn_cli.model.intervention import Outcome, Target
from attn_cli.prompt import Generated, Prompt, Token, Word
from attn_cli.summaries.parts.answer import PartsRead
from attn_cli.summaries.parts.hidden import HiddenParts
from attn_cli.summaries.parts.reading import ReadPart, ReadSink, TextReading
from attn_cli.summaries.parts.text_parts import parts_of
from attn_cli.summaries.report import Report
from attn_cli.views.answers.parts import draw
from attn_cli.views.drawing.screen import Screen

TEXT = "a document of many words that says what was asked\nanother one that says nothing of the kind at all\nso what?"


def led_by_a_sink() -> PartsRead:
    """Three lines of which the first is needed most, and holds a sink."""
    words = TEXT.split()
    starts = [TEXT.index(word, 2 * at) for at, word in enumerate(words)]
    tokens = tuple(Token(at, word, at, starts[at], starts[at] + len(word)) for at, word in enumerate(words))
    prompt = Prompt(TEXT, tokens)
    sink = ReadSink(tokens[0], 1.0, 0.3)
    parts = enumerate(parts_of(prompt, "lines"))
    reads = tuple(ReadPart(at, part, 0.3, 0.3, 1.0, () if at else (sink,)) for at, part in parts)
    outcomes = tuple(Outcome(bits=bits) for bits in (-9.0, -1.0, 0.5))
    target = Target((tokens[3],), 0.9, (len(words) - 1,), False)
    reading = TextReading((len(words) - 1,), "self", reads, (sink,), 0.0, ())
    return PartsRead("last part", prompt, reading, HiddenParts(outcomes, target, False, 0.0, "cache", ""), cut="lines")


def many_lines() -> PartsRead:
    """20 lines with a blank one after each, and an answer of two lines, of which the first came from the 15th line."""
    words = [f"w{at:02}" for at in range(20)]
    text = "".join(f"{word}\n\n" for word in words) + "w14 so\nThe"
    tokens = tuple(Token(at, word, at, start, start + len(word), generated=at >= 20) for at, (word, start) in enumerate(
        zip([*words, "w14", "so", "The"], [*range(0, 100, 5), 100, 104, 107], strict=True)))  # fmt: skip
    prompt = Prompt(text, tokens, generated=Generated("w14 so\nThe", 3, False, 100))
    sink = ReadSink(tokens[0], 1.0, 0.3)
    parts = enumerate(parts_of(prompt, "lines"))
    reads = tuple(ReadPart(at, part, 0.02 if at else 0.5, 0.02, 1.0, () if at else (sink,)) for at, part in parts)
    bits = [-20.0 if at == 14 else -0.01 if at else 0.1 for at in range(20)]
    outcomes = (*(Outcome(bits=own, token_bits=(own * 0.9, own * 0.05, own * 0.05)) for own in bits), None, None)
    target = Target(tokens[20:], 0.25, (19, 20, 21), True)
    reading = TextReading((19, 20, 21), "self", reads, (sink,), 0.0, ())
    return PartsRead("generated", prompt, reading, HiddenParts(outcomes, target, False, 0.0, "cache", ""), cut="lines")


def drawn(answer: PartsRead, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=1000)
    for line in draw(answer, Report("parts", {}, (answer.prompt,), (), (), answer), Screen(width)):
        console.print(line)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_a_quote_of_an_answer_ends_with_a_word() -> None:
    answer, word = many_lines(), Word("w14")
    pieces = [Token(20, "w1", 1, 100, 102, word=word), Token(21, "4", 2, 102, 103, word=word), answer.prompt.tokens[22]]
    assert answer.hidden is not None and answer.hidden.target is not None
    target = replace(answer.hidden.target, tokens=tuple(replace(token, generated=True) for token in pieces))
    lines = drawn(replace(answer, hidden=replace(answer.hidden, target=target)), 100)
    assert lines[1].startswith('"w14 …" comes from line 29')  # its first piece alone loses a tenth


def test_the_first_sentence_and_the_table_name_the_same_line_and_all_lines_are_counted() -> None:
    lines = drawn(many_lines(), 100)
    assert '"w14 …" comes from line 29 ("w14"): hidden, it makes the answer 1 million times (2^20.00)' in lines[1]
    assert any(line.startswith("the answer's p 0.25 (log2 p -2.00)") for line in lines)
    heading = next(at for at, line in enumerate(lines) if "share" in line and "hidden" in line)
    assert lines[heading + 1].split()[:3] == ["14", "29", "w14"], "token, line, and its text"
    (rest,) = (line for line in lines[heading:] if "…" in line)
    shown = [line.split()[1] for line in lines[heading + 1 : lines.index(rest)]]
    assert len(shown) == 12 and "… 10 more parts" in rest
    said = "    8 lines, 2 of the answer; line 1 has 0.500 of the share, with a sink"
    assert lines[lines.index(rest) + 1] == said


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_leading_part_with_a_sink_fits_the_screen(width: int) -> None:
    answer = led_by_a_sink()
    lines = drawn(answer, width)
    (first,) = (line for line in lines if line.endswith("  sink"))
    assert "█  sink" in first and max(map(len, lines)) <= width
