"""The syntax of --layer and --head: numbers, ranges, and heads that name their layer."""

import pytest

from attn_cli.errors import InputError
from attn_cli.selection import Selection
from attn_cli.selection_syntax import head_pairs, selection_of
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
