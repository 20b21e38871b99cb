"""Numbers in lines of text: .csv, .tsv, .txt."""

import codecs
from array import array
from typing import NamedTuple

import numpy as np

from attn_cli.errors import InputError
from attn_cli.sources.files.checks import Matrix, require_memory
from attn_cli.sources.files.raw import Bytes
from attn_cli.text import counted, excerpt

_ROWS = "expected as many numbers on every line; is there a column or a line of names?"


class _Line(NamedTuple):
    number: int  # from 1, blank lines and comments counted
    text: str


def read_text(data: Bytes, label: str) -> Matrix:
    """The numbers of a text file as `[lines, cells]`, float64, two axes always."""
    lines = _lines(decode_text(data, label))
    if not lines:
        raise InputError(f"{label} holds no numbers", "expected one row of numbers per line")
    separator = _separator(lines[min(1, len(lines) - 1)].text) or _separator(lines[0].text)
    first = _cells(lines[0].text, separator)
    has_names = all(map(_is_name, first))
    body = lines[1:] if has_names else lines
    if not body:
        raise InputError(f"{label} holds no numbers: its one line reads {excerpt(lines[0].text, 40)!r}", _ROWS)
    comma = separator == ";" and not any("." in line.text for line in body)
    numbers = array("d")  # 8 bytes a number, where a list takes 32
    width = len(first)
    for line in body:
        row = _row(line, separator, comma, label)
        if len(row) != width:
            # the line of names counts too: one name less than numbers means an index column
            lengths = f"line {line.number} has {counted(len(row), 'cell')}, line {lines[0].number} has {width}"
            raise InputError(f"{label} {lengths}", _ROWS)
        numbers.extend(row)
    return np.frombuffer(numbers, np.float64).reshape(-1, width)


def decode_text(data: Bytes, label: str) -> str:
    """The bytes as text: UTF-8, or UTF-16 if it says so in its first two bytes; InputError for other bytes."""
    require_memory(data.size, label)
    raw = data.tobytes()
    utf16 = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return raw.decode("utf-16" if utf16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{label} is not text: byte {error.start} is not UTF-8", "save it as UTF-8") from None


def _lines(text: str) -> list[_Line]:
    # not splitlines(), which also splits at characters that no editor counts as line ends
    every = enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), start=1)
    return [_Line(number, line) for number, line in every if line.strip() and not line.lstrip().startswith("#")]


def _separator(line: str) -> str | None:
    return next((mark for mark in ";\t," if mark in line.strip()), None)


def _cells(line: str, separator: str | None) -> list[str]:
    return [_unquoted(cell.strip()) for cell in line.split(separator)]


def _unquoted(cell: str) -> str:
    # only a pair of quotes is removed: a single one means that the line was split inside quotes, which is an error
    return cell[1:-1].strip() if len(cell) > 1 and cell[0] == cell[-1] == '"' else cell


def _row(line: _Line, separator: str | None, comma: bool, label: str) -> list[float]:
    text = line.text.replace(",", ".") if comma else line.text
    if "_" not in text:  # float() takes 1_0 for 10
        try:
            return [float(cell) for cell in text.split(separator)]
        except ValueError:
            pass  # a cell in quotes, or one that is no number
    numbers = []
    for column, cell in enumerate(_cells(text, separator), start=1):
        number = _number(cell)
        if number is None:
            raise _not_a_number(_cells(line.text, separator)[column - 1], f"{label} line {line.number}", column)
        numbers.append(number)
    return numbers


def _is_name(cell: str) -> bool:
    begins = cell[:1].isalpha() or cell[:1] == "_"
    return begins and _number(cell) is None and cell.casefold() not in ("na", "n/a", "null", "none", "true", "false")


def _number(cell: str) -> float | None:
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def _not_a_number(cell: str, label: str, column: int) -> InputError:
    if cell:
        return InputError(f"{label}, column {column}: {excerpt(cell, 40)!r} is not a number", _ROWS)
    return InputError(f"{label}, column {column} is empty", "an index column? write the file without it (index=False)")
