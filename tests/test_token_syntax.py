"""The syntax of --token, for one stream of tokens and its text alone."""

import pytest

from attn_cli.errors import InputError
from attn_cli.prompt import Prompt, Token
from attn_cli.token_syntax import all_places, first_place, picked_tokens

TEXT = "the bank by the riverbank"
TOKENS = (
    Token(0, "the", 0, 0, 3), Token(1, "bank", 1, 4, 8), Token(2, "by", 2, 9, 11), Token(3, "the", 0, 12, 15),
    Token(4, "river", 3, 16, 21), Token(5, "bank", 1, 21, 25), Token(6, "bank", 1, None, None, generated=True),
)  # fmt: skip


@pytest.mark.parametrize(
    ("pick", "indices"),
    [
        ("2", [2]), ("-1", [6]), ("by", [2]), ("BY", [2]), ("the", [0, 3]), ("the#2", [3]), ("riverbank", [4, 5]),
        ("+", [6]), ("+bank", [6]), ("bank#3", [6]), ("bank", [1, 5, 6]),
        ("1-3", [1, 2, 3]), ("4,0,-1", [0, 4, 6]), ("0-1,1", [0, 1]),
    ],
)  # fmt: skip
def test_what_a_pick_means(pick: str, indices: list[int]) -> None:
    assert picked_tokens(pick, TOKENS, TEXT)[0] == indices


def test_numbers_that_are_a_word_of_the_text_are_that_word() -> None:
    tokens = (Token(0, "pages", 0, 0, 5), Token(1, "0-1", 1, 6, 9))
    assert picked_tokens("0-1", tokens, "pages 0-1") == ([1], ())


def test_a_word_in_several_places_is_noted_and_a_picked_place_is_not() -> None:
    assert picked_tokens("the", TOKENS, TEXT)[1] == ("'the' occurs 2 times, at 0, 3; the#2 picks the second",)
    assert picked_tokens("the#2", TOKENS, TEXT)[1] == picked_tokens("by", TOKENS, TEXT)[1] == ()


@pytest.mark.parametrize("pick", ["7", "-8", "loan", "by#2", "", "+by", "5-7", "1,9"])
def test_a_pick_that_means_nothing_lists_the_tokens(pick: str) -> None:
    with pytest.raises(InputError) as refusal:
        picked_tokens(pick, TOKENS, TEXT)
    assert refusal.value.hint == "tokens: 0 the 1 bank 2 by 3 the 4 river 5 bank 6 bank"


def test_one_place_and_all_places_of_a_prompt() -> None:
    prompt = Prompt(TEXT, TOKENS)
    indices, (note,) = first_place("the", prompt)
    assert indices == [0]
    assert note.endswith("; the first is taken")
    assert first_place("riverbank", prompt) == ([4, 5], ())
    assert all_places("the", prompt) == [0, 3]
    assert all_places("loan", prompt) == []
