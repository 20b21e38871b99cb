"""Projections for a table: W_Q and W_K (and W_V) from a file, such as the one that `attn learn` writes."""

from typing import NamedTuple

import numpy as np

from attn_cli.errors import InputError
from attn_cli.sources.files.array_file import read_array
from attn_cli.text import excerpt


class TableProjections(NamedTuple):
    """Projections for a table of vectors of d numbers, cut into h heads, and the `file` they came from.

    wq, wk  W_Q and W_K `[d, h * e]`
    wv      W_V `[d, h * f]`, f numbers per head; None for the identity
    """

    wq: np.ndarray
    wk: np.ndarray
    wv: np.ndarray | None
    file: str


def read_projections(file: str, width: int, heads: int) -> TableProjections:
    """The arrays wq, wk and, if there is one, wv of an .npz, .safetensors or .json file, checked against a table."""
    wq, wk = (read_array(f"{file}:{name}", name=name) for name in ("wq", "wk"))
    wv = _optional(file, "wv")
    for name, w in (("wq", wq), ("wk", wk), ("wv", wv)):
        if w is None:
            continue
        description = f"{excerpt(file)}: {name} has shape {w.shape}"
        if w.ndim != 2 or w.shape[0] != width:
            raise InputError(
                f"{description}, and the table's vectors have {width} numbers", f"{name} is [{width}, ...]"
            )
        if w.shape[1] % heads:
            raise InputError(f"{description}, which {heads} heads don't divide", "every head gets as many columns")
    if wq.shape != wk.shape:
        raise InputError(
            f"{excerpt(file)}: wq has shape {wq.shape} and wk {wk.shape}", "queries meet keys of one length"
        )
    return TableProjections(wq, wk, wv, file)


def _optional(file: str, name: str) -> np.ndarray | None:
    """The array of that name, None where the file has none."""
    try:
        return read_array(f"{file}:{name}", name=name)
    except InputError as error:
        if "has no array called" in error.message:
            return None
        raise
