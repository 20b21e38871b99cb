"""Changes from one call to another, against plain loops over dense weights."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Place
from attn_cli.errors import InputError
from attn_cli.kernel.definition.dense import attend
from attn_cli.kernel.definition.masks import Causal
from attn_cli.kernel.definition.rule import Rule
from attn_cli.prompt import Token
from attn_cli.summaries.against.change_matrix import change_matrix
from attn_cli.summaries.against.changed_keys import changed_keys
from attn_cli.summaries.against.head_changes import head_changes
from attn_cli.summaries.against.kept import kept_bytes, kept_call, kept_rows
from attn_cli.summaries.against.side_by_side import side_by_side


def call_of(text: str, seed: int, heads: int = 2) -> AttentionCall:
    words = text.split()
    rng = np.random.default_rng(seed)
    q, k = 2 * rng.normal(size=(heads, len(words), 4)), rng.normal(size=(1, len(words), 4))
    labels = tuple(Token(at, word) for at, word in enumerate(words))
    place = Place(3, "it", tuple(range(heads)), (0,) * heads)
    return AttentionCall(q, k, k, Rule(1.0, mask=Causal()), place, labels, labels)


def dense(call: AttentionCall) -> np.ndarray:
    weights: np.ndarray = attend(call.q, call.k, call.v, call.rule).weights
    return weights


def by_hand(one: AttentionCall, other: AttentionCall, pairs: Sequence[tuple[int, int]]) -> np.ndarray:
    """The total variation of every paired row `[h, pairs]`, cell by cell."""
    a, b = dense(one), dense(other)
    partner, taken = dict(pairs), {j for _, j in pairs}
    changes = np.zeros((one.h, len(pairs)))
    for head in range(one.h):
        for at, (row, other_row) in enumerate(pairs):
            total = 0.0
            for key in range(one.m):
                total += abs((b[head, other_row, partner[key]] if key in partner else 0.0) - a[head, row, key])
            total += sum(b[head, other_row, key] for key in range(other.m) if key not in taken)
            changes[head, at] = total / 2
    return changes


TEXTS = ["a b c d", "a x c d", "a c d", "b a c e f d", "a", "a b c d e f g h i j"]


@given(st.sampled_from(TEXTS), st.sampled_from(TEXTS), st.integers(0, 99))
def test_changes_are_those_of_dense_weights(first: str, second: str, seed: int) -> None:
    one, other = call_of(first, seed), call_of(second, seed + 1)
    pair = side_by_side(one, other)
    pairs = list(zip(pair.rows.first.tolist(), pair.rows.second.tolist(), strict=True))
    expected = by_hand(one, other, pairs)
    assert ((expected >= 0) & (expected <= 1 + 1e-9)).all()
    heads = head_changes(pair)
    np.testing.assert_allclose(heads.changes, expected.mean(axis=1), atol=1e-6)
    np.testing.assert_allclose(heads.last_changes, expected[:, -1], atol=1e-6)
    keys = changed_keys(pair, 99)
    np.testing.assert_allclose(keys.row_changes, expected, atol=1e-6)
    a, b = dense(one), dense(other)
    for head, row, rank in np.ndindex(*keys.keys.shape):
        key, other_key = keys.keys[head, row, rank], keys.other_keys[head, row, rank]
        mine = a[head, pairs[row][0], key] if key >= 0 else 0.0
        theirs = b[head, pairs[row][1], other_key] if other_key >= 0 else 0.0
        assert keys.changes[head, row, rank] == pytest.approx(theirs - mine, abs=1e-6)
    sizes = np.abs(keys.changes)
    assert (np.diff(sizes, axis=-1) <= 1e-7).all()
    matrix = change_matrix(pair)
    np.testing.assert_allclose(np.abs(matrix.changes).sum(axis=-1) / 2, expected, atol=1e-6)
    mean = change_matrix(pair, mean_heads=True)
    np.testing.assert_allclose(mean.changes[0], matrix.changes.mean(axis=0), atol=1e-6)


@given(st.sampled_from(TEXTS), st.sampled_from(TEXTS), st.integers(0, 99))
def test_against_itself_nothing_changes_and_swapped_the_sign_turns(first: str, second: str, seed: int) -> None:
    one, other = call_of(first, seed), call_of(second, seed + 1)
    assert not change_matrix(side_by_side(one, one)).changes.any()
    there, back = change_matrix(side_by_side(one, other)), change_matrix(side_by_side(other, one))

    def cells(rows: np.ndarray, keys: np.ndarray, others: np.ndarray, changes: np.ndarray) -> dict[object, float]:
        return {
            (head, int(rows[row]), int(keys[column]), int(others[column])): float(changes[head, row, column])
            for head, row, column in np.ndindex(*changes.shape)
        }

    forth = cells(there.rows, there.keys, there.other_keys, there.changes)
    turned = cells(back.other_rows, back.other_keys, back.keys, -back.changes)
    assert forth.keys() == turned.keys()
    assert all(forth[cell] == pytest.approx(turned[cell], abs=1e-7) for cell in forth)


def test_a_kept_call_changes_as_the_call_does() -> None:
    one, other = call_of("a b c d", 1), call_of("a x c d", 2)
    expected = head_changes(side_by_side(one, other)).changes
    kept = kept_call(one)
    np.testing.assert_allclose(head_changes(side_by_side(kept, other)).changes, expected, atol=1e-7)
    assert kept_bytes(kept) == 8 * (2 * 4 * 4 + 4 * 4)  # q and k alone
    some = changed_keys(side_by_side(kept_rows(one, [1, 3]), other), 4, [1, 3])
    np.testing.assert_allclose(
        some.row_changes, changed_keys(side_by_side(one, other), 4, [1, 3]).row_changes, atol=1e-7
    )


def test_pooled_to_a_screen_the_largest_change_of_a_block_remains() -> None:
    text = "a b c d e f g h i j"
    pair = side_by_side(call_of(text, 1), call_of(text, 2))
    whole, pooled = change_matrix(pair), change_matrix(pair, largest=(4, 5))
    assert pooled.block == (3, 2)
    for head, row, column in np.ndindex(*pooled.changes.shape):
        block = whole.changes[head, 3 * row : 3 * row + 3, 2 * column : 2 * column + 2].ravel()
        assert abs(pooled.changes[head, row, column]) == pytest.approx(np.abs(block).max())
        assert pooled.changes[head, row, column] in block


def test_other_numbers_of_heads_are_refused() -> None:
    with pytest.raises(InputError, match="layer 3 has 2 heads here and 3 in the other"):
        side_by_side(call_of("a b", 0), call_of("a b", 0, heads=3))
