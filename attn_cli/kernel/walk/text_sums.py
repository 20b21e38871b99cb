"""Sums over the rows of each of some texts that lie side by side, of as many rows each."""

import numpy as np


def text_sums(x: np.ndarray, factors: np.ndarray, count: int) -> np.ndarray:
    """Numbers of rows x `[h, rows, c]` times factors `[rows, c]`, added up over the rows of each text `[h, count, c]`.

    In float64. An axis of length 1 is repeated.

    >>> text_sums(np.ones((1, 4, 1)), np.array([[1.0], [2.0], [3.0], [4.0]]), 2).tolist()
    [[[3.0], [7.0]]]
    """
    return _sums(x, factors, count, None, None)


def text_sums_above(x: np.ndarray, given: np.ndarray, factors: np.ndarray, least: np.ndarray, count: int) -> np.ndarray:
    """What is given `[h, rows]` times factors `[rows, c]`, of the rows in which x `[h, rows, c]` is enough of that.

    least  how much of it is enough `[count, c]`, never where it is NaN

    >>> x, given = np.array([[[0.1], [0.5]]]), np.array([[1.0, 0.9]])
    >>> text_sums_above(x, given, np.ones((2, 1)), np.array([[0.2]]), 1).tolist()
    [[[0.9]]]
    """
    return _sums(x, factors, count, given, least)


def _sums(
    x: np.ndarray, factors: np.ndarray, count: int, given: np.ndarray | None, least: np.ndarray | None
) -> np.ndarray:
    h, rows, columns = np.broadcast_shapes(x.shape, factors[None].shape)
    x, factors = np.broadcast_to(x, (h, rows, columns)), np.broadcast_to(factors, (rows, columns))
    sums = np.zeros((h, count, columns))
    if _is_compiled() and all(each is None or each.dtype == np.float32 for each in (x, factors, given)):
        from attn_cli.kernel.walk.compiled import add_up_texts

        given = None if given is None else np.ascontiguousarray(given)
        add_up_texts(x, factors, sums, given, None if least is None else np.ascontiguousarray(least, np.float64))
        return sums
    if given is None:
        np.einsum("hbnc,bnc->hbc", _by_text(x, count), _by_text(factors, count), out=sums, dtype=np.float64)
        return sums
    everything = _by_text(given[..., None] * factors, count)
    assert least is not None
    enough = _by_text(x, count) >= least[:, None] * everything
    np.einsum("hbnc,hbnc->hbc", enough, everything, out=sums, dtype=np.float64, casting="unsafe")
    return sums


def _by_text(x: np.ndarray, count: int) -> np.ndarray:
    """`[..., rows, c]` as `[..., count, rows of a text, c]`."""
    return x.reshape(*x.shape[:-2], count, -1, x.shape[-1])


def _is_compiled() -> bool:
    from attn_cli.kernel.walk.compiled import is_built

    return is_built()
