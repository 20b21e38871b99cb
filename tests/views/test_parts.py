"""The screen of attn parts: no line is wider than the screen, also of a part that leads and holds a sink."""

import io

import pytest
from rich.console import Console

from attn_cli.model.intervention import Outcome, Target
from attn_cli.prompt import Prompt, Token
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


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_leading_part_with_a_sink_fits_the_screen(width: int) -> None:
    answer = led_by_a_sink()
    console = Console(file=io.StringIO(), width=1000)
    for line in draw(answer, Report("parts", {}, (answer.prompt,), (), (), answer), Screen(width)):
        console.print(line)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    (first,) = (line for line in lines if line.endswith("  sink"))
    assert "█  sink" in first and max(map(len, lines)) <= width
