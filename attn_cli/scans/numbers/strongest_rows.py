"""The strongest rows of each kind, one of a text, of texts that lie side by side, of as many rows each."""

import ctypes

import numpy as np

from attn_cli.kernel.cpu.c_library import is_built, library
from attn_cli.kernel.cpu.c_structs import StrongestStruct
from attn_cli.kernel.cpu.c_threads import team


def strongest_rows(
    weights: np.ndarray, bits: np.ndarray, least: np.ndarray, order: np.ndarray, most: int
) -> np.ndarray:
    """The rows with the largest weights of each head and kind, at most one of a text: `[h, kinds, most]`.

    The strongest first; -1 where there are fewer.

    weights  `[h, rows]` in float32, none below 0; a row of weight 0 is left out. Texts lie side by side, of as many
             rows each
    bits     of which kinds each row is, kind k for bit k `[h, rows]` in uint32
    least    weaker rows are left out `[h, kinds]`
    order    the texts' numbers: of equally strong rows that of the text first in this order is kept; in a text the
             first

    >>> weights, bits = np.float32([[0.5, 0.2, 0.7, 0.7]]), np.uint32([[1, 3, 1, 2]])
    >>> strongest_rows(weights, bits, np.zeros((1, 2)), np.array([0, 1]), 2).tolist()
    [[[2, 0], [3, 1]]]
    """
    arguments = np.ascontiguousarray(weights), np.ascontiguousarray(bits), np.ascontiguousarray(least, np.float32)
    if is_built():
        return _by_compiled_code(*arguments, np.ascontiguousarray(order, np.int64), most)
    return rows_by_sorting(*arguments, order, most)


def rows_by_sorting(
    weights: np.ndarray, bits: np.ndarray, least: np.ndarray, order: np.ndarray, most: int
) -> np.ndarray:
    """The rows with the largest weights of each head and kind, one of a text, by sorting: `strongest_rows` without C.

    `[h, kinds, most]`, the strongest first, then -1. Arguments are as for `strongest_rows`.
    """
    (heads, kinds), n = least.shape, weights.shape[1] // len(order)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    rows = np.full((heads, kinds, most), -1)
    for kind in range(kinds):
        strong = (bits >> kind & 1 > 0) & (weights > 0) & (weights >= least[:, kind, None])
        head, row = np.nonzero(strong)
        by_weight = np.lexsort((row % n, place[row // n], -weights[head, row], head))
        head, row = head[by_weight], row[by_weight]
        _, first = np.unique(head * len(order) + row // n, return_index=True)  # of each text
        head, row = (x[np.sort(first)] for x in (head, row))
        rank = np.arange(len(head)) - np.searchsorted(head, head)
        best = rank < most
        rows[head[best], kind, rank[best]] = row[best]
    return rows


def _by_compiled_code(
    weights: np.ndarray, bits: np.ndarray, least: np.ndarray, order: np.ndarray, most: int
) -> np.ndarray:
    """The strongest rows by compiled code, of contiguous float32, uint32, float32 and int64."""
    code, (h, kinds), texts = library(), least.shape, len(order)
    assert code is not None
    rows = np.full((h, kinds, most), -1, np.int64)
    job = StrongestStruct(h=h, texts=texts, n=weights.shape[1] // texts, kinds=kinds, most=most)
    for name, array in (("weights", weights), ("bits", bits), ("least", least), ("order", order), ("rows", rows)):
        setattr(job, name, array.ctypes.data)
    code.attn_strongest(ctypes.addressof(job), *(team() or (None, 1)))
    return rows
