"""What stands behind a name: a file, a folder, a pipe, a device or nothing; and its content, where memory holds it."""

import difflib
import json
import os
import stat
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, BinaryIO

from attn_cli.errors import AttnError, InputError, LimitError, reason
from attn_cli.sources.files.parse_errors import parse_errors
from attn_cli.sources.memory import check_memory
from attn_cli.text import decimal_bytes, excerpt

MOST_ENDLESS = 10**9
_PIECE = 2**20
_CHECK = "check the name and the folder"


class PathKind(Enum):
    """The kind of thing at a path: a file, a folder, a pipe, a device, nothing; the value is its name in messages."""

    FILE = "a file"
    FOLDER = "a folder"
    PIPE = "a pipe"
    DEVICE = "a device"
    NOTHING = "no such file"


def expanded(name: str) -> Path:
    """The path of that name, with ~ for the home folder; a ~NAME that nobody has stays as it is."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


def leads_somewhere(name: str) -> bool:
    """True if there is a file, a folder or anything else at `name`; False also for what can't be a name."""
    try:
        return Path(name).exists()
    except (OSError, ValueError):
        return False


def kind_of_path(path: Path, error_type: type[AttnError]) -> PathKind:
    """The kind of thing at `path`; an `error_type` where the system won't say: name too long, no permission."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a null byte in the name
        return PathKind.NOTHING
    except OSError as error:
        raise error_type(
            f"{excerpt(str(path))} can't be read: {reason(error)}", "check the name and its permissions"
        ) from None
    if stat.S_ISREG(mode):
        return PathKind.FILE
    if stat.S_ISDIR(mode):
        return PathKind.FOLDER
    return PathKind.PIPE if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else PathKind.DEVICE


def require_file(path: Path, error_type: type[AttnError], hint: str = _CHECK) -> None:
    """Raise an `error_type` for a folder, a pipe, a device or nothing in place of a file."""
    label, kind = excerpt(str(path)), kind_of_path(path, error_type)
    if kind is PathKind.NOTHING:
        raise error_type(f"no file {label}", nearest_name(path, hint))
    if kind is not PathKind.FILE:
        hint = (
            "name one of the files in it" if kind is PathKind.FOLDER else "save what it gives to a file, and name that"
        )
        raise error_type(f"{label} is {kind.value}, not a file", hint)


def nonempty_file(name: str) -> Path:
    """The path of a file that holds something; InputError for any other."""
    path = expanded(name)
    require_file(path, InputError)
    if path.stat().st_size == 0:
        raise InputError(f"{excerpt(name)} is empty", "is the download complete?")
    return path


def nearest_name(path: Path, otherwise: str = _CHECK) -> str:
    """A hint: the most similar name in the same folder, that the folder doesn't exist, or else `otherwise`."""
    if not path.parent.is_dir():
        return f"there is no folder {excerpt(str(path.parent))}"
    near = nearest_path(path)
    return otherwise if near is None else f"did you mean {excerpt(str(near))}?"


def nearest_path(path: Path) -> Path | None:
    """The path in the same folder with the most similar name; None where none is similar."""
    try:
        close = difflib.get_close_matches(path.name, [entry.name for entry in path.parent.iterdir()], n=1)
    except OSError:
        return None
    return path.parent / close[0] if close else None


def read_content(path: Path) -> bytes:
    """The bytes of a file; of a pipe or a device until it ends."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            return read_stream(file, excerpt(str(path)))
        check_memory(status.st_size, f"the bytes of {excerpt(str(path))}", "give a part of it")
        return file.read()


def read_stream(stream: BinaryIO, label: str) -> bytes:
    """The bytes of a stream until it ends; LimitError, in which `label` names it, for more than 1 GB."""
    pieces, size = [], 0
    while piece := stream.read(_PIECE):
        size += len(piece)
        if size > MOST_ENDLESS:
            raise LimitError(
                f"{label}: more than {decimal_bytes(MOST_ENDLESS)} without an end", "save it to a file, and name that"
            )
        pieces.append(piece)
    return b"".join(pieces)


def read_json(path: Path, label: str, error_type: type[AttnError], hint: str) -> Any:
    """The JSON value in a file in UTF-8, called `label` in messages; of a .jsonl file the list of its lines' values."""
    with parse_errors(label, hint, error_type):
        text = read_content(path).decode("utf-8-sig")
        if path.suffix == ".jsonl":
            return [json.loads(line, parse_int=_whole_number) for line in text.split("\n") if line.strip()]
        return json.loads(text, parse_int=_whole_number)


def nested(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    """A JSON value, what it holds, and the names in it, in their order, each with its place: `place.name[0]`."""
    waiting = [(place, value)]
    while waiting:  # by hand: files may be nested deeper than Python's stack
        place, each = waiting.pop()
        yield place, each
        if isinstance(each, list):
            waiting += [(f"{place}[{at}]", item) for at, item in enumerate(each)][::-1]
        elif isinstance(each, dict):
            pairs = [((f"{place} name", name), (f"{place}.{name}", item)) for name, item in each.items()]
            waiting += [entry for pair in pairs for entry in pair][::-1]


def _whole_number(digits: str) -> int:
    if len(digits) > 1000:
        raise ValueError(f"a number of {len(digits):,} digits")
    return int(digits)
