"""The largest entries of rows of every length, with ties, signs and NaN."""

import numpy as np
import pytest
import torch

from attn_cli.kernel.stats.topk import heaviest

LENGTHS = (1, 2, 5, 16, 64, 65, 81, 255, 256, 1000, 2050)


def kinds(random: np.random.Generator, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Rows with hardly a tie, with many, with nothing else, and with zeros of both signs."""
    x = random.normal(size=shape)
    return {
        "few ties": x,
        "many ties": np.round(x),
        "nothing but ties": np.zeros(shape),
        "mostly zeros": np.maximum(x, 0) * random.integers(0, 2, shape),
        "negative": -np.abs(np.round(x, 1)),
    }


@pytest.mark.parametrize("count", [1, 2, 5, 17, 64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("tensors", [False, True])
def test_the_heaviest_are_what_a_stable_sort_puts_first(count: int, dtype: type, tensors: bool) -> None:
    random = np.random.default_rng(0)
    for length in (c for c in LENGTHS if c >= count):
        for kind, rows in kinds(random, (2, 3, length)).items():
            rows = rows.astype(dtype)
            expected = np.argsort(-rows, axis=-1, kind="stable")[..., :count]
            values, positions = heaviest(torch.from_numpy(rows) if tensors else rows, count)
            assert isinstance(positions, torch.Tensor if tensors else np.ndarray)
            np.testing.assert_array_equal(np.asarray(positions), expected, err_msg=f"{kind}, {length} entries")
            np.testing.assert_array_equal(np.asarray(values), np.take_along_axis(rows, expected, axis=-1))


@pytest.mark.parametrize("length", [50, 300])
def test_rows_with_nan_leave_the_others_right(length: int) -> None:
    rows = np.random.default_rng(1).normal(size=(4, length)).astype(np.float32)
    rows[1], rows[2, :3] = np.nan, np.nan
    _, positions = heaviest(rows, 5)
    expected = np.argsort(-rows, axis=-1, kind="stable")[:, :5]
    np.testing.assert_array_equal(positions[[0, 3]], expected[[0, 3]])
    assert ((positions >= 0) & (positions < length)).all()


def test_a_slice_of_a_larger_array_is_read_where_it_is() -> None:
    whole = np.random.default_rng(2).normal(size=(2, 9, 500)).astype(np.float32)
    part = whole[:, 2:6, 30:430]
    expected = np.argsort(-part, axis=-1, kind="stable")[..., :5]
    for rows in (part, torch.from_numpy(whole)[:, 2:6, 30:430]):
        np.testing.assert_array_equal(np.asarray(heaviest(rows, 5)[1]), expected)
