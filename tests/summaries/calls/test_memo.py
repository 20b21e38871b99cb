"""Results for the same tokens are computed once."""

from collections.abc import Sequence

from attn_cli.prompt import Token
from attn_cli.summaries.calls.memo import memoised


def test_the_same_tokens_are_asked_once_and_equal_ones_again() -> None:
    asked = []

    @memoised
    def texts(tokens: Sequence[Token]) -> list[str]:
        asked.append(tokens)
        return [token.text for token in tokens]

    one, other = (Token(0, "a"),), (Token(0, "a"), Token(1, "b"))
    equal = (Token(0, "a"),)
    assert texts(one) is texts(one)
    assert texts(other) == ["a", "b"]
    assert texts(equal) == texts(one) == ["a"]
    assert [id(tokens) for tokens in asked] == [id(one), id(other), id(equal)]


def test_what_was_made_of_many_others_is_made_again_and_right() -> None:
    count = memoised(len)
    many = [tuple(Token(at, "a") for at in range(n)) for n in range(1, 40)]
    for _ in range(2):
        assert [count(tokens) for tokens in many] == list(range(1, 40))
