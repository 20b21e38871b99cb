"""Sums of shards become those of all: means and variances, counts of tokens, strongest examples, quantiles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("datasketches")

from attn_cli.scans.numbers.examples import Examples
from attn_cli.scans.sums.blocks import MOST, Blocks, paired
from attn_cli.scans.sums.quantiles import Quantiles
from attn_cli.scans.sums.sums import Moments, TokenCounts

NUMBERS = st.floats(-100, 100) | st.just(float("nan"))


@given(st.lists(NUMBERS, max_size=30), st.lists(NUMBERS, max_size=30))
def test_moments_of_two_parts_are_those_of_all(first: list[float], second: list[float]) -> None:
    parts = Moments.of(np.array([first])) | Moments.of(np.array([second]))
    known = [x for x in first + second if x == x]
    assert parts.count.tolist() == [len(known)]
    if known:
        np.testing.assert_allclose(parts.mean, [np.mean(known)], atol=1e-9)
        np.testing.assert_allclose(parts.squares, [np.var(known) * len(known)], atol=1e-8)


def counts(ids: list[int], to: list[int]) -> TokenCounts:
    rows = np.array(to)
    return TokenCounts(np.array(ids), *(np.array([to], np.uint32) for _ in range(2)), rows, np.zeros((1, 2), np.int64))


def test_tokens_are_counted_by_number_and_those_beyond_the_bound_together() -> None:
    both = counts([1, 5], [10, 20]).plus(counts([5, 7, 9], [1, 2, 3]), most=3)
    assert both.ids.tolist() == [1, 5, 7]
    assert both.to.tolist() == [[10, 21, 2]]
    assert both.lost.tolist() == [[3, 3]]


def test_a_count_above_32_bits_is_still_a_count() -> None:
    both = counts([1], [2**32 - 10]).plus(counts([1], [100]), most=5)
    assert both.to.tolist() == [[2**32 + 90]]


def test_the_strongest_examples_come_first_and_ties_by_document() -> None:
    def one(weight: float, document: int) -> Examples:
        examples = Examples.none(1)
        examples.weight[..., 0], examples.document[..., 0] = weight, document
        return examples

    both = one(0.5, 9) | one(0.5, 3) | one(0.7, 12) | one(0.1, 1)
    assert both.document[0, 0, :4].tolist() == [12, 3, 9, 1]


@pytest.mark.parametrize("size", [1, 2, 3, 300, 512])
def test_quantiles_don_t_depend_on_when_they_are_written_to_a_file(size: int) -> None:
    random = np.random.default_rng(0)
    shards = [random.normal(size=(2, size)) for _ in range(12)]
    kept, stored = Quantiles.none(2), Quantiles.none(2)
    for shard in shards:
        kept |= Quantiles.of(shard).settled()
        arrays = (stored | Quantiles.of(shard).settled()).arrays()
        for _ in range(shard.size % 3 + 1):  # however often
            arrays = Quantiles.from_arrays(arrays["bytes"], arrays["sizes"]).arrays()
        stored = Quantiles.from_arrays(arrays["bytes"], arrays["sizes"])
    assert kept.arrays()["bytes"].tobytes() == stored.arrays()["bytes"].tobytes()
    numbers = np.concatenate(shards, axis=1)
    low, middle, high = kept.at((0.0, 0.5, 1.0)).T
    assert (low == numbers.min(axis=1)).all() and (high == numbers.max(axis=1)).all()
    np.testing.assert_allclose((numbers <= middle[:, None]).mean(axis=1), 0.5, atol=0.01 + 1 / numbers.shape[1])


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=80, unique=True), st.integers(0, 79))
def test_blocks_of_two_parts_are_those_of_all(documents: list[int], cut: int) -> None:
    at, values = np.sort(documents), np.random.default_rng(0).normal(size=(2, len(documents)))
    values[0, ::3] = np.nan
    whole = Blocks.of(at, values)
    parts = Blocks.none(2) | Blocks.of(at[:cut], values[:, :cut]) | Blocks.of(at[cut:], values[:, cut:])
    assert parts.step == whole.step and parts.number.tolist() == whole.number.tolist()
    assert whole.number.max() < MOST and (whole.step == 0 or 2 * whole.number.max() + 1 >= MOST)
    assert (parts.count == whole.count).all() and parts.count.sum() == (~np.isnan(values)).sum()
    np.testing.assert_allclose(parts.total, whole.total, atol=1e-12)
    np.testing.assert_allclose(whole.total.sum(axis=0), np.nansum(values, axis=1), atol=1e-12)


@pytest.mark.parametrize("count", [40, 3000])
def test_the_error_of_a_difference_is_that_of_pairs(count: int) -> None:
    random = np.random.default_rng(1)
    one = random.normal(size=(1, count)) * 10
    other = one + random.normal(size=(1, count))
    error, freedom = paired(*(Blocks.of(np.arange(count), values) for values in (one, other)))
    exact = (other - one).std(ddof=1) / np.sqrt(count)
    np.testing.assert_allclose(error, exact, rtol=1e-9 if count == 40 else 0.2)
    assert freedom == (39 if count == 40 else 187)
