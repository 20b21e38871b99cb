"""Numbers typed in place of a file: `1 0; 0 1` or `[[1, 0], [0, 1]]`."""

import os
import re
from pathlib import Path

import numpy as np

from attn_cli.errors import InputError
from attn_cli.sources.files.checks import Matrix
from attn_cli.sources.files.kinds import has_known_suffix
from attn_cli.text import counted, excerpt

_BEGINS = re.compile(r"\s*(\[|[-+]?\.?\d)")
_HINT = "a row like 1 0, rows apart by ;"


def is_typed(spec: str) -> bool:
    """True for numbers, False for the name of a file.

    >>> is_typed("1 0; 0 1"), is_typed(".5"), is_typed("2024.npy"), is_typed("-")
    (True, True, False, False)
    """
    return bool(_BEGINS.match(spec)) and not has_known_suffix(Path(spec)) and not os.path.lexists(spec)


def typed_matrix(text: str, name: str) -> Matrix:
    """The rows typed for the option `name`, float64 `[rows, numbers]`; InputError names the row that is wrong."""
    if "[" in text:
        rows, between = re.findall(r"\[([^\[\]]*)\]", text), re.sub(r"\[[^\[\]]*\]", "", text)
        if not re.fullmatch(r"\s*\[?[\s,]*\]?\s*", between):
            raise InputError(f"{name} isn't rows in brackets: {excerpt(text, 40)}", "[[1, 0], [0, 1]], or 1 0; 0 1")
    else:
        rows = re.split(r"[;\n]", text.strip("; \n"))
    numbers = [_row(row, f"{name}, row {at}") for at, row in enumerate(rows, 1)]
    for at, row in enumerate(numbers, 1):
        if len(row) != len(numbers[0]) or not row:
            lengths = f"{name}, row {at} has {counted(len(row), 'number')}, row 1 has {len(numbers[0])}"
            raise InputError(lengths, "as many numbers in every row")
    return np.array(numbers)


def _row(text: str, label: str) -> list[float]:
    cells = re.split(r"\s*,\s*|\s+", text.strip(" ,\t"))
    for cell in cells:
        if not re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?|[-+]?(inf|nan)", cell, re.IGNORECASE):
            raise InputError(f"{label}: {excerpt(cell, 40)!r} is not a number", _HINT)
    return [float(cell) for cell in cells]
