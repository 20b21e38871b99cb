"""Where bytes go: standard output, or a file that appears whole or not at all."""

import errno
import os
import sys
import tempfile
from pathlib import Path
from types import TracebackType

from attn_cli.errors import InputError, OutputError


class ReaderGone(Exception):
    """The reader of standard output closed it: nothing left to do, and nothing wrong."""


class Sink:
    """Takes bytes; a context manager that publishes the file at a clean end and leaves no trace at any other.

    A file is written beside its target under another name, flushed to disk and renamed, so a reader sees the old file
    or the whole new one. An existing target is refused unless `force`.
    """

    def __init__(self, path: str | None, *, binary: bool = False, force: bool = False) -> None:
        self.path = None if path in (None, "-") else Path(path or "").expanduser().resolve()
        self.temporary: Path | None = None
        if self.path is None:
            if binary and sys.stdout.isatty():
                raise InputError("a terminal can't show this format", "add -o FILE, or pipe it on")
            return
        if self.path.is_dir():
            raise OutputError(f"{path} is a folder", "give a file name")
        if self.path.exists() and not force:
            raise OutputError(f"{path} exists", "add --force to replace it")
        try:
            handle, name = tempfile.mkstemp(prefix=f".{self.path.name}.", suffix=".part", dir=self.path.parent)
        except OSError as error:
            raise OutputError(f"can't write {path}: {error.strerror}", "is the folder there and writable?") from error
        self.temporary = Path(name)
        self.file = os.fdopen(handle, "wb")

    def write(self, data: bytes) -> None:
        """Pass `data` on."""
        try:
            if self.path is None:
                sys.stdout.flush()
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
            else:
                self.file.write(data)
        except OSError as error:
            self._give_up(error)

    def __enter__(self) -> "Sink":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.path is None or self.temporary is None:
            return
        try:
            if kind is None:
                self.file.flush()
                os.fsync(self.file.fileno())
                self.file.close()
                umask = os.umask(0)
                os.umask(umask)
                mode = self.path.stat().st_mode & 0o777 if self.path.exists() else 0o666 & ~umask
                self.temporary.chmod(mode)  # mkstemp makes it private
                self.temporary.replace(self.path)
        except OSError as failure:
            self._give_up(failure)
        finally:
            self.file.close()
            self.temporary.unlink(missing_ok=True)

    def _give_up(self, error: OSError) -> None:
        if self.path is None and error.errno == errno.EPIPE:
            raise ReaderGone from error
        where = "standard output" if self.path is None else str(self.path)
        raise OutputError(f"can't write {where}: {error.strerror}") from error
