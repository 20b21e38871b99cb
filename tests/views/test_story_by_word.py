"""The heads that bring an answer, word by word: whoever reads a needed word is named, and no effect below 0.1 bits."""

from attn_cli.model.intervention import HeadPlace, Target
from attn_cli.prompt import Token
from attn_cli.summaries.told.story import Story, StoryHead, StoryWord, WordReader
from attn_cli.views.answers.story import draw
from attn_cli.views.drawing.screen import Screen

MARY, BOOK, AND, GAVE = (Token(at, f" {text}") for at, text in ((3, "Mary"), (5, "book"), (6, "and"), (8, "gave")))


def word(token: Token, effect: float, reader: WordReader | None = None) -> StoryWord:
    return StoryWord(token.text, token.text.strip(), (token,), effect, reader)


def story() -> Story:
    target = Target((Token(0, " John"),), 0.4, (9,), generated=False)
    weak, other = WordReader(HeadPlace(1, 2), 0.3, -0.04), WordReader(HeadPlace(0, 4), 0.2, -0.7)
    words = (word(MARY, -2.0, other), word(BOOK, -1.0, weak), word(AND, -0.5), word(GAVE, -0.3, other))
    heads = (StoryHead(HeadPlace(0, 4), (MARY, 0.6), -0.7), StoryHead(HeadPlace(2, 1), (Token(7, "to"), 0.5), -0.2),
             StoryHead(HeadPlace(1, 2), (BOOK, 0.3), -0.04))  # fmt: skip
    return Story(target, ((Token(0, " John"), 0.4),), (9,), "words", words, heads, 0.0, estimated=True)


def test_each_needed_word_has_its_heads() -> None:
    lines = [line.plain for line in draw(story(), Screen(80))]
    start = next(at for at, line in enumerate(lines) if line.startswith("brought by"))
    assert [line.rstrip() for line in lines[start : start + 5]] == [
        "brought by    3 Mary  0.4 -0.70 (0.60)",
        "              5 book  no head alone 0.1 or more; most read by 1.2 (0.30)",
        "              6 and   no head gives it 0.1 of its weight",
        "              8 gave  0.4 -0.70 (0.20; it gives another token more)",
        "              7 to    2.1 -0.20 (0.50)",
    ]
    said = " ".join(" ".join(lines[start + 5 :]).split())
    assert "the heads of a word don't add up to what it brings" in said
    assert "(0.60): weight of 0.4 on 3 Mary, its largest on a token that is no sink" in said
    assert "under 0.1 bits: head 1.2" in said and "not listed" not in said


def test_narrow_screens_have_the_words_below_the_heading() -> None:
    lines = [line.rstrip() for text in draw(story(), Screen(40)) for line in text.plain.split("\n")]
    start = lines.index("brought by")
    assert lines[start + 1] == "  3 Mary  0.4 -0.70 (0.60)"
    assert all(len(line) <= 40 for line in lines)
