"""The screens of attn knock, parts and heads --kinds: to the byte, and harmless whatever tokens hold."""

from collections.abc import Callable

import pytest
from rich.cells import cell_len

from attn_cli.model.intervention import Outcome, Target
from attn_cli.prompt import Prompt, Token
from attn_cli.summaries.answer import Answer, Table
from attn_cli.summaries.answers.knock import SHAPE
from attn_cli.summaries.parts.answer import PartsRead
from attn_cli.summaries.parts.hidden import HiddenParts
from attn_cli.summaries.parts.reading import ReadPart, ReadSink, TextReading
from attn_cli.summaries.parts.text_parts import TextPart
from attn_cli.summaries.report import Report
from attn_cli.text import quoted
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.screens import render
from tests.program import attn
from tests.views.test_golden import GoldenScreen
from tests.views.test_hostile import HOSTILE, harmless

SOURCE = {"model": "a.gguf", "type": "llama", "dtype": "float32", "device": "cpu"}
WORDS = ["The", "capital", "of", "France", "is"]


def knock_of(words: list[str], answer: str) -> Report:
    """Four heads silenced, one of which it helps to be without."""
    tokens = tuple(Token(at, word) for at, word in enumerate(words))
    effects = ((23, 4, -2.4, 2.87), (12, 0, -0.65, 0.02), (3, 1, 0.0, -0.1), (11, 0, 0.18, 0.0))
    numbers = ({"layer": x, "head": y, "bits": bits, "direct_logit": direct} for x, y, bits, direct in effects)
    heads = [row | {"key": 3, "key_token": tokens[3].text, "weight": 0.9} for row in numbers]
    run = {"probability": 0.773, "generated": False, "vector": None, "everywhere": False, "mean": False}
    rows = {"heads": heads, "answer": [{"row": 4, "token": answer}], "rows": [{"row": 4, "token": tokens[4].text}]}
    tables = {name: Table.of(listed) for name, listed in (rows | {"run": [run], "together": []}).items()}
    knock = Answer(SHAPE, (f"{quoted(answer)} needs head 23.4 most: -2.40 bits without it",), tables, shown=2)
    return Report("knock", SOURCE, (Prompt(" ".join(words), tokens),), answer=knock)


def parts_of(words: list[str], answer: str) -> Report:
    """Three parts, of which the second was needed and the first holds a sink."""
    tokens = tuple(Token(at, word) for at, word in enumerate(words))
    starts = [len(" ".join([*words[:at], ""])) for at in range(len(words) + 1)]
    spans = {"line 1": (0, 2), "line 2": (2, 4), "line 3": (4, 5)}
    cut = [TextPart(name, ((starts[a], starts[b]),), tuple(range(a, b))) for name, (a, b) in spans.items()]
    sink = ReadSink(tokens[0], 0.7, 0.33)
    read = tuple(
        ReadPart(at, part, share, rest, of_size, (sink,) if at == 0 else ())
        for at, (part, share, rest, of_size) in enumerate(
            zip(cut, (0.6, 0.3, 0.1), (0.2, 0.6, 0.2), (0.4, 1.8, 0.9), strict=True)
        )
    )
    target = Target((Token(5, answer),), 0.475, (4,), False)
    hidden = HiddenParts(tuple(Outcome(bits=bits) for bits in (-0.03, -12.2, -1.9)), target, False, 1e-6, "cache", "")
    prompt = Prompt(" ".join(words), tokens)
    reading = TextReading((4,), "self", read, (sink,), 0.0, ())
    return Report("parts", SOURCE, (prompt,), answer=PartsRead("last part", prompt, reading, hidden, cut="lines"))


@pytest.mark.parametrize(("command", "made"), [("knock", knock_of), ("parts", parts_of)])
def test_to_the_byte(golden_screen: GoldenScreen, command: str, made: Callable[[list[str], str], Report]) -> None:
    golden_screen(command, lambda width: render(made(WORDS, "Paris"), Screen(width)))


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("made", [knock_of, parts_of], ids=["knock", "parts"])
def test_tokens_are_shown_harmless(made: Callable[[list[str], str], Report], text: str) -> None:
    words = [text, "漢字の文章", f"[bold]{text}", f" {text}", "ends"]
    for width in (40, 80):
        shown = render(made(words, text), Screen(width))
        harmless(shown)
        assert max(map(cell_len, shown.splitlines())) <= width
    assert "[bold]" in render(made(["[bold]"] * 5, "[/]"), Screen(80))


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_texts_of_tables_are_shown_harmless(text: str) -> None:
    harmless(attn("heads", "--kinds", f"{text} river bank").text)
    harmless(attn("parts", f"{text}. The river bank.").text)
