"""Files, folders, pipes and devices behind names, found without exceptions of the system's."""

import errno
import os
import stat
from enum import Enum
from pathlib import Path

from attn_cli.errors import AttnError, InputError, reason
from attn_cli.text import excerpt


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


def nonempty_file(name: str) -> Path:
    """The path of a file that holds something; InputError for a folder, a pipe, a device, an empty file, or none."""
    path, label = expanded(name), excerpt(name)
    kind = kind_of_path(path, InputError)
    if kind is not PathKind.FILE:
        problem = {PathKind.NOTHING: os.strerror(errno.ENOENT), PathKind.FOLDER: os.strerror(errno.EISDIR)}
        raise InputError(f"can't read {label}: {problem.get(kind, f'it is {kind.value}')}", "check the name")
    if path.stat().st_size == 0:
        raise InputError(f"{label} is empty", "is the download complete?")
    return path
