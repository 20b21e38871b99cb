"""Row statistics of packed texts: what is wanted of each as one request, and the answer text by text."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from attn_cli.kernel.stats.wanted import RankedKeys, RowStats, Wanted

_OF_ALL = ("moments", "key_sets", "tops", "column_sums")  # fields that can be wanted of packed texts together


def together(wanted: Sequence[Wanted], texts: Sequence[slice], n: int) -> Wanted | None:
    """The requests for statistics of packed texts as one request for all n rows; None where it can't be one."""
    first = wanted[0]
    for each in wanted:
        others = (getattr(each, x.name) for x in fields(each) if x.name not in _OF_ALL)
        if any(others) or each.rows is not None or any(columns.rows is not None for columns in each.column_sums):
            return None
        if (each.moments, each.tops, each.column_sums) != (first.moments, first.tops, first.column_sums):
            return None
        if len(each.key_sets) != len(first.key_sets):
            return None
    sets = zip(*(each.key_sets for each in wanted), strict=True)
    return replace(first, key_sets=tuple(packed_keys(of_texts, texts, n) for of_texts in sets))


def packed_keys(of_texts: Sequence[np.ndarray], texts: Sequence[slice], n: int) -> np.ndarray:
    """Keys of each packed text's rows `[rows, c]`, counted from the text's first, as keys of all n rows `[n, c]`."""
    packed = np.full((n, max(keys.shape[1] for keys in of_texts)), -1)
    for rows, keys in zip(texts, of_texts, strict=True):
        packed[rows, : keys.shape[1]] = np.where(keys < 0, -1, keys + rows.start)
    return packed


def apart(stats: RowStats, wanted: Sequence[Wanted], texts: Sequence[slice]) -> Iterator[RowStats]:
    """For each packed text the statistics that its own request asks for, cut from those of all rows."""
    for each, rows in zip(wanted, texts, strict=True):
        of_rows: dict[str, Any] = {name: getattr(stats, name)[:, rows] for name in each.moments}
        if each.key_sets:
            of_rows["key_sums"] = np.asarray(stats.key_sums)[:, rows]
        tops = {top: _of_text(stats.tops[top], rows) for top in each.tops}
        sums = {columns: stats.column_sums[columns][:, rows] for columns in each.column_sums}
        yield RowStats(each, **of_rows, tops=tops, column_sums=sums)


def _of_text(ranked: RankedKeys, rows: slice) -> RankedKeys:
    weights, scores, keys = (
        None if x is None else x[:, rows, : rows.stop - rows.start]
        for x in (ranked.weights, ranked.scores, ranked.keys)
    )
    assert weights is not None and keys is not None
    return RankedKeys(weights, scores, np.where(keys < 0, -1, keys - rows.start))
