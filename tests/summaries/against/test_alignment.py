"""Tokens side by side: longest matching blocks, replaced runs, the first tokens, special tokens by kind."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.prompt import Token
from attn_cli.summaries.against.alignment import aligned_tokens


def tokens(text: str) -> tuple[Token, ...]:
    """Words as tokens; what stands in brackets is special."""
    words = text.split()
    return tuple(Token(at, word, special=word.startswith("[")) for at, word in enumerate(words))


def pairs(first: str, second: str) -> list[tuple[str, str]]:
    one, other = tokens(first), tokens(second)
    alignment = aligned_tokens(one, other)
    return [(one[i].text, other[j].text) for i, j in zip(alignment.first, alignment.second, strict=True)]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("a b c", "a b c", [("a", "a"), ("b", "b"), ("c", "c")]),
        ("a b c", "a x c", [("a", "a"), ("b", "x"), ("c", "c")]),  # replaced, one by one
        ("a b c", "a x y c", [("a", "a"), ("c", "c")]),  # of unequal length: alone
        ("a b c", "x a b c", [("a", "x"), ("b", "b"), ("c", "c")]),  # first tokens are a pair whatever they are
        ("[CLS] a [SEP]", "[CLS] b c [SEP]", [("[CLS]", "[CLS]"), ("[SEP]", "[SEP]")]),
        ("[CLS] a b [SEP] c", "[CLS] a [SEP] b c d", [("[CLS]", "[CLS]"), ("a", "a"), ("[SEP]", "[SEP]"), ("c", "c")]),
        ("q [SEP]", "q z", [("q", "q")]),  # nothing special is a pair with a word
    ],
)
def test_pairs(first: str, second: str, expected: list[tuple[str, str]]) -> None:
    found = pairs(first, second)
    assert [pair for pair in expected if pair not in found] == []
    assert [pair for pair in found if pair[0] != pair[1]] == [pair for pair in expected if pair[0] != pair[1]]


def test_columns_are_in_the_order_of_the_first_with_new_keys_where_they_stand() -> None:
    one, other = tokens("the capital of France is"), tokens("the capital of sunny Italy is")
    first, second = aligned_tokens(one, other).columns
    assert first.tolist() == [0, 1, 2, -1, -1, 3, 4]
    assert second.tolist() == [0, 1, 2, 3, 4, -1, 5]


def test_tokens_are_the_same_by_their_ids_where_they_have_some() -> None:
    one = (Token(0, "a", 1), Token(1, "b", 2), Token(2, "c", 3))
    other = (Token(0, "a", 1), Token(1, "x", 3))
    alignment = aligned_tokens(one, other)
    assert (alignment.first.tolist(), alignment.second.tolist()) == ([0, 2], [0, 1])


@given(st.lists(st.sampled_from("abc["), max_size=12), st.lists(st.sampled_from("abc["), max_size=12))
def test_every_place_is_in_one_pair_or_alone_and_swapping_swaps(first: list[str], second: list[str]) -> None:
    one, other = tokens(" ".join(first)), tokens(" ".join(second))
    alignment = aligned_tokens(one, other)
    assert sorted([*alignment.first, *alignment.alone_first]) == list(range(len(one)))
    assert sorted([*alignment.second, *alignment.alone_second]) == list(range(len(other)))
    assert list(alignment.first) == sorted(alignment.first)
    assert not (one and other) or (0, 0) in zip(alignment.first, alignment.second, strict=True)
    swapped = aligned_tokens(other, one)
    assert {*zip(swapped.second.tolist(), swapped.first.tolist(), strict=True)} == {
        *zip(alignment.first.tolist(), alignment.second.tolist(), strict=True)
    }
    columns = np.stack(alignment.columns)
    assert sorted(columns[0][columns[0] >= 0]) == list(range(len(one)))
    assert sorted(columns[1][columns[1] >= 0]) == list(range(len(other)))
    same = aligned_tokens(one, one)
    assert same.first.tolist() == same.second.tolist() == list(range(len(one)))
