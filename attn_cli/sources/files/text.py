"""Numbers in lines of text, .csv, .tsv and .txt, or typed in place of a file: `1 0; 0 1` or `[[1, 0], [0, 1]]`."""

import codecs
import os
import re
from array import array
from pathlib import Path

import numpy as np

from attn_cli.errors import InputError
from attn_cli.sources.files.checks import Matrix, require_memory
from attn_cli.sources.files.raw import Bytes, has_known_suffix
from attn_cli.text import counted, excerpt

_TYPED = re.compile(r"\s*(\[|[-+]?\.?\d)")


def is_typed(spec: str) -> bool:
    """True for numbers, False for the name of a file.

    >>> is_typed("1 0; 0 1"), is_typed(".5"), is_typed("2024.npy"), is_typed("-")
    (True, True, False, False)
    """
    return bool(_TYPED.match(spec)) and not has_known_suffix(Path(spec)) and not os.path.lexists(spec)


def typed_array(text: str, name: str) -> Matrix:
    """The rows typed for the option `name`, float64 `[rows, numbers]`; InputError names the row that is wrong."""
    rows = re.split(r"[;\n]", text.strip("; \n"))
    if "[" in text:
        rows, between = re.findall(r"\[([^\[\]]*)\]", text), re.sub(r"\[[^\[\]]*\]", "", text)
        if not re.fullmatch(r"\s*\[?[\s,]*\]?\s*", between):
            raise InputError(f"{name} isn't rows in brackets: {excerpt(text, 40)}", "[[1, 0], [0, 1]], or 1 0; 0 1")
    lines = "\n".join(re.sub(r"\s*,\s*|\s+", " ", row) for row in rows)
    return _numbers(lines, name, "row", "as many numbers in every row, rows apart by ;: 1 0; 0 1")


def text_array(data: Bytes, label: str) -> Matrix:
    """The numbers of a text file as `[lines, cells]`, float64, two axes always."""
    hint = "expected as many numbers on every line: is there a column or a line of names?"
    return _numbers(decode_text(data, label), label, "line", hint)


def decode_text(data: Bytes, label: str) -> str:
    """The bytes as text: UTF-8, or UTF-16 if it says so in its first two bytes; InputError for other bytes."""
    require_memory(data.size, label)
    raw = data.tobytes()
    utf16 = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return raw.decode("utf-16" if utf16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{label} is not text: byte {error.start} is not UTF-8", "save it as UTF-8") from None


def _numbers(text: str, label: str, unit: str, hint: str) -> Matrix:
    every = enumerate(re.split("\r\n|\r|\n", text), start=1)  # splitlines() splits at more than editors do
    lines = [(at, line) for at, line in every if line.strip() and not line.lstrip().startswith("#")]
    if not lines:
        raise InputError(f"{label} holds no numbers", f"expected one row of numbers per {unit}")
    mark = next((mark for _, line in (*lines[1:2], lines[0]) for mark in ";\t," if mark in line.strip()), None)
    first = _cells(lines[0][1], mark)
    body = lines[1:] if all(map(_is_name, first)) else lines
    if not body:
        raise InputError(f"{label} holds no numbers: its one {unit} reads {excerpt(lines[0][1], 40)!r}", hint)
    comma = mark == ";" and not any("." in line for _, line in body)
    numbers = array("d")  # 8 bytes a number, where a list takes 32
    for at, line in body:
        cells = _cells(line, mark)
        for column, cell in enumerate(cells, start=1):
            number = _number(cell.replace(",", ".") if comma else cell)
            if number is None:
                what = f": {excerpt(cell.strip(), 40)!r} is not a number" if cell.strip() else " is empty"
                advice = hint if cell.strip() else "an index column? write the file without it (index=False)"
                raise InputError(f"{label} {unit} {at}, column {column}{what}", advice)
            numbers.append(number)
        if len(cells) != len(first):
            # the line of names counts too: one name less than numbers means an index column
            lengths = f"{unit} {at} has {counted(len(cells), 'cell')}, {unit} {lines[0][0]} has {len(first)}"
            raise InputError(f"{label} {lengths}", hint)
    return np.frombuffer(numbers, np.float64).reshape(-1, len(first))


def _cells(line: str, mark: str | None) -> list[str]:
    # only a pair of quotes is removed: a single one means that the line was split inside quotes, which is an error
    return [re.sub(r'^\s*"(.*)"\s*$', r"\1", cell) if '"' in cell else cell for cell in line.split(mark)]


def _number(cell: str) -> float | None:
    try:
        return None if "_" in cell else float(cell)  # which takes 1_0 for 10
    except ValueError:
        return None


def _is_name(cell: str) -> bool:
    name = cell.strip()
    starts = name[:1].isalpha() or name[:1] == "_"
    return starts and name.casefold() not in _NO_NAMES and _number(name) is None


_NO_NAMES = ("na", "n/a", "null", "none", "true", "false")
