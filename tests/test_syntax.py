"""The syntax of --layer, --head and --token: numbers, ranges, heads that name their layer, words."""

import pytest

from attn_cli.errors import InputError
from attn_cli.prompt import Prompt, Token
from attn_cli.selection import Selection
from attn_cli.selection_syntax import head_pairs, selection_of
from attn_cli.token_syntax import all_places, first_place, picked_tokens
from tests.program import attn


@pytest.mark.parametrize(
    ("heads", "pairs"),
    [
        ("18.6", ((18, 6),)), ("17.3,18.6", ((17, 3), (18, 6))), (" 18.6 , 17.3 ", ((18, 6), (17, 3))),
        ("-1.-2", ((-1, -2),)), ("17.0-2,17.1", ((17, 0), (17, 1), (17, 2))),
    ],
)  # fmt: skip
def test_heads_that_name_their_layer(heads: str, pairs: tuple[tuple[int, int], ...]) -> None:
    assert head_pairs(heads, "--head") == pairs
    assert selection_of("all", heads) == Selection(pairs=pairs)


def test_layers_beside_plain_heads() -> None:
    assert selection_of("0,4-5", "-1") == Selection((0, 4, 5), (-1,))
    assert selection_of("all", "all") == Selection()


@pytest.mark.parametrize(
    ("layers", "heads", "message"),
    [
        ("3", "18.6", "--layer 3 and --head 18.6 at once"),
        ("all", "18.6,2", "--head '18.6,2' is not a choice of heads: 2 names no layer"),
        ("all", "1.2.3", "--head '1.2.3' is not a choice of heads: '1.2.3' is not LAYER.HEAD"),
        ("all", "17-18.3", "--head '17-18.3' is not a choice of heads: '17-18.3' is not LAYER.HEAD"),
        ("all", "18.", "--head '18.' is not a choice of heads: '18.' is not LAYER.HEAD"),
        ("all", "18.5-3", "--head '18.5-3' is not a choice of heads: '18.5-3' is not LAYER.HEAD"),
        ("all", "five", "--head 'five' is not a choice of heads"),
        ("1.2", "all", "--layer '1.2' is not a choice of layers"),
    ],
)
def test_what_chooses_nothing_is_refused(layers: str, heads: str, message: str) -> None:
    with pytest.raises(InputError) as refusal:
        selection_of(layers, heads)
    assert refusal.value.message == message


def test_a_table_has_layer_0_alone() -> None:
    run = attn("top", "river bank", "-H", "0.1", "--json")
    assert run.code == 0
    assert {(row["layer"], row["head"]) for row in run.json["tables"]["top"]} == {(0, 1)}
    run = attn("top", "river bank", "-H", "1.0")
    assert (run.code, run.errors.splitlines()[0]) == (2, "attn: there is no attention layer 1")


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
        ("ver", [4]), ("1-3", [1, 2, 3]), ("4,0,-1", [0, 4, 6]), ("0-1,1", [0, 1]),
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
    assert note.endswith(": the first is taken")
    assert first_place("riverbank", prompt) == ([4, 5], ())
    assert all_places("the", prompt) == [0, 3]
    assert all_places("loan", prompt) == []
