"""W_Q and W_K that `attn learn` found for a table, in the .npz file that it writes: `-m learned.npz` opens both."""

from typing import NamedTuple

import numpy as np

from attn_cli.errors import InputError, LoadError
from attn_cli.sources.files.array_file import read_array
from attn_cli.sources.files.npy import npz_arrays
from attn_cli.sources.files.parse_errors import parse_errors
from attn_cli.sources.files.paths import PathKind, expanded, kind_of_path
from attn_cli.sources.files.raw import open_raw
from attn_cli.sources.tables.arrays import words_of
from attn_cli.sources.tables.table import WordTable


class Learned(NamedTuple):
    """Learned W_Q and W_K `[d, d]`, and the `--model` value of the table that they are for."""

    table: str
    wq: np.ndarray
    wk: np.ndarray


def read_learned(file: str) -> Learned | None:
    """What `attn learn` wrote to an .npz file; None for a file of another kind, or none."""
    path = expanded(file)
    if path.suffix.lower() != ".npz" or kind_of_path(path, LoadError) is not PathKind.FILE:
        return None
    raw = open_raw(str(path))
    label = f"{raw.label}: table"
    with parse_errors(raw.label):
        arrays = npz_arrays(raw)
        if not {"table", "wq", "wk"} <= {*arrays}:
            return None
        names = words_of(arrays["table"](label), label)
    if len(names) != 1:
        raise InputError(f"{label} is not one name of a table", "attn learn -o writes the name of its --model there")
    wq, wk = (read_array(f"{path}:{name}", name=name) for name in ("wq", "wk"))
    return Learned(names[0], wq, wk)


def check_fit(learned: Learned, table: WordTable, file: str) -> None:
    """Raise InputError for projections, read from `file`, that are not `[d, d]` for vectors of d numbers."""
    for name, w in (("wq", learned.wq), ("wk", learned.wk)):
        if w.shape != (table.width, table.width):
            raise InputError(
                f"{file}: {name} has shape {w.shape}, and the vectors of {table.name} have {table.width} numbers",
                "learn again: attn learn -o",
            )
