"""The screens of attn knock, parts and heads --kinds: to the byte, and harmless whatever tokens hold."""

from collections.abc import Callable

import pytest
from rich.cells import cell_len

from attn_cli.prompt import Prompt, Token
from attn_cli.summaries.answer import Answer, Table
from attn_cli.summaries.answers.knock import SHAPE
from attn_cli.summaries.parts.answer import SHAPE as PARTS
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
    effects = ((23, 4, -2.4), (12, 0, -0.65), (3, 1, 0.0), (11, 0, 0.18))
    numbers = ({"layer": x, "head": y, "bits": bits} for x, y, bits in effects)
    heads = [row | {"key": 3, "key_token": tokens[3].text, "weight": 0.9} for row in numbers]
    run = {"probability": 0.773, "generated": False, "vector": None, "everywhere": False, "mean": False}
    rows = {"heads": heads, "answer": [{"row": 4, "token": answer}], "rows": [{"row": 4, "token": tokens[4].text}]}
    tables = {name: Table.of(listed) for name, listed in (rows | {"run": [run], "together": []}).items()}
    knock = Answer(SHAPE, (f"{quoted(answer)} needs head 23.4 most: -2.40 bits without it",), tables, shown=2)
    return Report("knock", SOURCE, (Prompt(" ".join(words), tokens),), answer=knock)


def parts_of(words: list[str], answer: str) -> Report:
    """Three parts, of which the second was needed and the first is a sink."""
    numbers = ((-17.6, 0.6), (-12.2, 0.3), (-1.9, 0.1))
    parts = [
        {"name": f"line {at + 1}", "text": " ".join(words[2 * at : 2 * at + 2]), "key": 2 * at, "kind": "given",
         "share": share, "hidden_bits": bits, "is_sink": not at}
        for at, (bits, share) in enumerate(numbers)
    ]  # fmt: skip
    run = {"probability": 0.475, "generated": False, "vector": None, "everywhere": False, "run_mode": "cache"}
    rows = {"parts": parts[1:] + parts[:1], "answer": [{"row": 4, "token": answer}], "rows": [{"row": 4}], "run": [run]}
    tables = {name: Table.of(listed) for name, listed in rows.items()}
    findings = (f"{quoted(answer)} needs line 2: without it 4,700 times less likely",
                f"sink {quoted(words[0])} 0: hiding it breaks the model (2^17.6)")  # fmt: skip
    tokens = tuple(Token(at, word) for at, word in enumerate(words))
    read = Answer(PARTS, findings, tables, shown=12)
    return Report("parts", SOURCE, (Prompt(" ".join(words), tokens),), answer=read)


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
