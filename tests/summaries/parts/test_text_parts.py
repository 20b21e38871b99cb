"""Texts cut into parts: every character and every token is in one of them."""

import pytest

from attn_cli.errors import InputError
from attn_cli.prompt import Generated, Prompt, Token
from attn_cli.summaries.parts.text_parts import (
    MessageText,
    TextPart,
    message_spans,
    named_parts,
    parts_of,
    rows_of_last,
)


def prompt_of(text: str, *, written: int = 0) -> Prompt:
    """A token for every run of letters, and one for every other character but the space, after an added one."""
    tokens = [Token(0, "<s>", special=True)]
    place = 0
    while place < len(text):
        end = place + 1
        while text[place].isalnum() and end < len(text) and text[end].isalnum():
            end += 1
        if text[place] != " ":
            generated = place >= len(text) - written
            tokens.append(Token(len(tokens), text[place:end], 5, place, end, generated=generated))
        place = end
    generated = Generated(text[len(text) - written :], 1, False, len(text) - written) if written else None
    return Prompt(text, tuple(tokens), generated=generated)


def texts(prompt: Prompt, parts: tuple[TextPart, ...]) -> list[str]:
    return [part.text(prompt.text) for part in parts if part.kind == "given"]


@pytest.mark.parametrize(
    ("cut", "text", "pieces"),
    [
        ("lines", "one two\nthree\r\n\n  \nfour", ["one two\n", "three\r\n\n  \n", "four"]),
        ("lines", "\n\none\ntwo\n", ["\n\none\n", "two\n"]),
        ("paragraphs", "one\ntwo\n\n \nthree", ["one\ntwo\n\n \n", "three"]),
        ("sentences", 'He left. "Why?" she said. Dr. Who\ncame at 3.5 p.m. to A. Bee! So?',
         ["He left. ", '"Why?" she said. ', "Dr. Who\ncame at 3.5 p.m. to A. Bee! ", "So?"]),
        ("sentences", "你好。再见！", ["你好。", "再见！"]),
        ("words", "one two, three", ["one ", "two", ", ", "three"]),
    ],
)  # fmt: skip
def test_pieces(cut: str, text: str, pieces: list[str]) -> None:
    prompt = prompt_of(text)
    assert texts(prompt, parts_of(prompt, cut)) == pieces


def test_blank_lines_are_counted() -> None:
    assert [part.name for part in parts_of(prompt_of("one\n\ntwo"), "lines")] == ["special", "line 1", "line 3"]


@pytest.mark.parametrize("cut", ["lines", "paragraphs", "sentences", "words"])
@pytest.mark.parametrize("written", [0, 9])
def test_every_token_is_in_one_part(cut: str, written: int) -> None:
    prompt = prompt_of("A cat. It sat, so\nthere. \n\nThe end.\nYes. No.\n", written=written)
    parts = parts_of(prompt, cut)
    assert sorted(index for part in parts for index in part.tokens) == list(range(len(prompt.tokens)))
    assert "".join(part.text(prompt.text) for part in parts) == prompt.text
    kinds = [part.kind for part in parts]
    assert kinds == sorted(kinds, key=["other", "given", "generated"].index)
    for part in parts:
        for index in part.tokens:
            token = prompt.tokens[index]
            assert token.generated == (part.kind == "generated")
            assert (token.start is None) == (part.name == "special")
            assert token.start is None or any(start <= token.start < end for start, end in part.spans)


def test_the_last_part_is_what_asks_and_all_after_it() -> None:
    prompt = prompt_of("A fact.\nA question?\nYes", written=3)
    assert [prompt.tokens[row].text for row in rows_of_last(prompt, parts_of(prompt, "lines"))] == [
        "A", "question", "?", "\n",
    ]  # fmt: skip


def test_messages_are_found_in_the_order_of_the_chat() -> None:
    text = "<sys>Be short.</s><user>Hi Hi</s><bot>Hi</s><user>Bye</s>"
    messages = [("system", "Be short."), ("user", " Hi Hi\n"), ("assistant", "Hi"), ("user", "Bye")]
    spans = message_spans(text, [MessageText(role, (content,)) for role, content in messages])
    assert [(span.name, text[span.start : span.end]) for span in spans] == [
        ("system", "Be short."), ("user 1", "Hi Hi"), ("assistant", "Hi"), ("user 2", "Bye"),
    ]  # fmt: skip
    prompt = prompt_of(text)
    parts = named_parts(prompt, spans)
    assert sorted(index for part in parts for index in part.tokens) == list(range(len(prompt.tokens)))
    (template,) = [part for part in parts if part.name == "template"]
    assert template.text(text) == "<sys></s><user></s><bot></s><user></s>"
    with pytest.raises(InputError, match="message 2"):
        message_spans(text, [MessageText("user", ("Bye",)), MessageText("assistant", ("Hi",))])
