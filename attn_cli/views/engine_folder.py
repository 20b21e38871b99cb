"""A folder of files that engines read: each appears whole, and none replaces another unasked."""

from collections.abc import Mapping
from pathlib import Path

from attn_cli.errors import OutputError, reason
from attn_cli.views.sink import Sink


def check_folder(folder: str, *, force: bool) -> None:
    """OutputError for a folder that holds something, unless `force`, and for a name that is a file's."""
    path = Path(folder).expanduser()
    if path.exists() and not path.is_dir():
        raise OutputError(f"{folder} is a file", "give the name of a folder")
    if path.is_dir() and not force and any(path.iterdir()):
        raise OutputError(f"{folder} is not empty", "add --force to write into it")


def write_folder(folder: str, files: Mapping[str, str], *, force: bool) -> str:
    """Write the files by name, making the folder if need be; returns a line that says what was written.

    force  replace files that are there; OutputError for one without it
    """
    path = Path(folder).expanduser()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"can't write {folder}: {reason(error)}", "is the folder above it writable?") from error
    for name, content in files.items():
        with Sink(str(path / name), force=force) as sink:
            sink.write(content.encode())
    return f"wrote {', '.join(files)} into {folder}"
