"""Sums over the rows of each of some texts that lie side by side, of as many rows each."""

import ctypes
from collections.abc import Sequence

import numpy as np

from attn_cli.kernel.cpu.c_library import is_built, library
from attn_cli.kernel.cpu.c_structs import TextSumsStruct, TextSumStruct
from attn_cli.kernel.cpu.c_threads import team

_ONE = np.ones((1, 1), np.float32)


class TextSum:
    """A request for a sum over the rows of each text: x `[h, rows, c]` times factors `[rows, c]`, added up.

    Texts lie side by side, of as many rows each. An axis of factors of length 1 is repeated, and so is the last of x.

    given  `[h, rows]` or None; with it, given times factors is added up in place of x, over the rows in which x is at
           least `least` times `given`
    least  `[texts, c]`; no row counts where it is NaN; None without `given`
    """

    def __init__(
        self,
        x: np.ndarray,
        factors: np.ndarray = _ONE,
        given: np.ndarray | None = None,
        least: np.ndarray | None = None,
    ) -> None:
        (h, rows, _), columns = x.shape, max(x.shape[2], factors.shape[1])
        self.x = x if x.shape[2] == columns else np.broadcast_to(x, (h, rows, columns))
        self.factors = factors if factors.shape == (rows, columns) else np.broadcast_to(factors, (rows, columns))
        self.given = None if given is None else np.ascontiguousarray(given)
        self.least = None if least is None else np.ascontiguousarray(least, np.float64)

    @property
    def is_single(self) -> bool:
        """True if x, factors and given are in float32."""
        return all(each is None or each.dtype == np.float32 for each in (self.x, self.factors, self.given))


def text_sums(wanted: Sequence[TextSum], count: int) -> list[np.ndarray]:
    """For each request the sums over the rows of each of `count` texts, `[h, count, c]` in float64.

    >>> rows, factors = np.ones((1, 4, 1)), np.array([[1.0], [2.0], [3.0], [4.0]])
    >>> given, least = np.array([[1.0, 0.9, 1.0, 1.0]]), np.array([[2.0], [0.3]])
    >>> [each.tolist() for each in text_sums([TextSum(rows, factors), TextSum(rows, factors, given, least)], 2)]
    [[[[3.0], [7.0]]], [[[0.0], [3.0]]]]
    """
    heads, widths = len(wanted[0].x), [each.x.shape[2] for each in wanted]
    together = np.zeros((heads, count, sum(widths)))
    sums = np.split(together, np.cumsum(widths)[:-1], axis=2)
    if is_built() and all(each.is_single for each in wanted):
        _add_up_compiled(wanted, sums)
        return sums
    for each, out in zip(wanted, sums, strict=True):
        _add_up(each, out)
    return sums


def _add_up(wanted: TextSum, sums: np.ndarray) -> None:
    """Fill the sums `[h, texts, c]`."""
    count = sums.shape[1]
    x, factors = _by_text(wanted.x, count), _by_text(wanted.factors, count)
    if wanted.given is None or wanted.least is None:
        np.einsum("hbnc,bnc->hbc", x, factors, out=sums, dtype=np.float64)
        return
    everything = _by_text(wanted.given[..., None] * wanted.factors, count)
    enough = x >= wanted.least[:, None] * everything
    np.einsum("hbnc,hbnc->hbc", enough, everything, out=sums, dtype=np.float64, casting="unsafe")


def _by_text(x: np.ndarray, count: int) -> np.ndarray:
    return x.reshape(*x.shape[:-2], count, -1, x.shape[-1])


def _add_up_compiled(wanted: Sequence[TextSum], sums: Sequence[np.ndarray]) -> None:
    """Fill the sums `[h, texts, c]` of each that is wanted, all of as many heads and texts, by the compiled code."""
    code = library()
    assert code is not None
    (h, texts, _), rows = sums[0].shape, wanted[0].x.shape[1]
    jobs = (TextSumStruct * len(sums))(*map(_job, wanted, sums))
    whole = TextSumsStruct(h=h, texts=texts, n=rows // texts, count=len(sums), wanted=ctypes.addressof(jobs))
    code.attn_text_sums(ctypes.addressof(whole), *(team() or (None, 1)))


def _job(wanted: TextSum, sums: np.ndarray) -> TextSumStruct:
    job = TextSumStruct(columns=sums.shape[2], x=wanted.x.ctypes.data, factors=wanted.factors.ctypes.data)
    job.x_head, job.x_row, job.x_column = (step // 4 for step in wanted.x.strides)
    job.factor_row, job.factor_column = (step // 4 for step in wanted.factors.strides)
    job.sums, job.sums_head, job.sums_text = sums.ctypes.data, sums.strides[0] // 8, sums.strides[1] // 8
    if wanted.given is not None and wanted.least is not None:
        job.given, job.least = wanted.given.ctypes.data, wanted.least.ctypes.data
    return job
