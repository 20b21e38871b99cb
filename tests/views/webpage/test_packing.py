"""Packed pages are read again: weights to 0.004, masks and numbers exactly, by plain Python and not by the script."""

import zlib
from base64 import b64decode
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.recording import RecordedLayer
from attn_cli.views.webpage.packing import at_least, chosen_cells, heaviest, packed, packed_head, packed_mask, varints
from tests.strategies import Problem, problems
from tests.views.webpage.recordings import layer_of, masked, tokens_of, without_softmax


def unpacked(text: bytes) -> bytes:
    return zlib.decompress(b64decode(text, validate=True))


def numbers(data: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0


def dense(layer: RecordedLayer, text: bytes, high: float = 1.0) -> np.ndarray:
    """The weights `[n, m]` of a packed head, 0 where it has none."""
    data = unpacked(text)
    weights = np.zeros((layer.n, layer.m))
    values = list(numbers(data[1 : len(data)]))
    counts = values[: layer.m]
    steps = values[layer.m : layer.m + sum(counts)]
    levels = data[1 + len(varints(np.array(counts + steps))) :]
    at = 0
    for key, count in enumerate(counts):
        query = 0
        for place in range(count):
            query = (steps[at] + key) % layer.n if place == 0 else query + 1 + steps[at]
            byte = levels[at]
            root = (byte & 127) / 127 if data[0] & 2 else byte / 255
            weights[query, key] = root**2 * high * (-1 if data[0] & 2 and byte > 127 else 1)
            at += 1
    return weights


@given(st.binary(max_size=40))
def test_bytes_come_back(data: bytes) -> None:
    text = packed(data)
    assert unpacked(text) == data
    assert not set(text) & set(b"\"$&'-<>\\` \n")


@given(st.lists(st.integers(0, 2**40)))
def test_whole_numbers_come_back(values: list[int]) -> None:
    assert list(numbers(varints(np.array(values, dtype=np.int64)))) == values


@pytest.mark.parametrize("threshold", [0.002, 0.1])
def test_weights_come_back_to_a_250th(threshold: float) -> None:
    layer = layer_of(0, tokens_of("a b c d e f g h i j k l m n"), tokens_of("1 2 3 4 5 6 7"), heads=3)
    for head in range(layer.h):
        one = packed_head(layer, chosen_cells(layer, head, at_least(threshold)))
        expected = layer.weights(head, slice(None), slice(None))
        there = expected >= threshold
        np.testing.assert_allclose(dense(layer, one.data), np.where(there, expected, 0), atol=0.004)
        assert one.kept == pytest.approx(expected[there].sum(), rel=1e-5)
        assert one.total == pytest.approx(expected.sum(), rel=1e-5)
        assert one.high == 1


def test_weights_with_signs_and_above_1_come_back() -> None:
    layer = without_softmax().layers[0]
    expected = layer.weights(0, slice(None), slice(None))
    assert expected.min() < 0
    one = packed_head(layer, chosen_cells(layer, 0, at_least(0.002)))
    assert one.high == pytest.approx(np.abs(expected).max())
    np.testing.assert_allclose(dense(layer, one.data, one.high), expected, atol=0.008 * one.high)


def test_the_heaviest_keys_of_every_row() -> None:
    layer = layer_of(0, tokens_of("a b c d e f g h i j k l m n"))
    cells = chosen_cells(layer, 1, heaviest(3))
    weights = layer.weights(1, slice(None), slice(None))
    assert np.bincount(cells.queries).tolist() == [3] * layer.n
    for query in range(layer.n):
        mine = set(cells.keys[cells.queries == query].tolist())
        assert mine == set(np.argsort(weights[query])[-3:].tolist())
    few = layer_of(0, tokens_of("a b", special=False))
    assert len(chosen_cells(few, 0, heaviest(3)).keys) == few.n * few.m


@given(problems())
def test_masks_come_back(problem: Problem) -> None:
    tokens = [tuple(tokens_of("x " * count, special=False)) for count in (problem.q.shape[1], problem.k.shape[1])]
    layer = layer_of(0, *tokens, heads=len(problem.q), rule=masked(problem.rule.mask))
    values, at = list(numbers(packed_mask(layer))), 0
    rows = np.zeros((layer.n, layer.m), bool)
    for row in rows:
        runs, at, key = values[at], at + 1, 0
        for _ in range(runs):
            key += values[at]
            row[key : key + values[at + 1]] = True
            key, at = key + values[at + 1], at + 2
    assert at == len(values)
    assert np.array_equal(rows, layer.allowed(slice(None), slice(None)))
