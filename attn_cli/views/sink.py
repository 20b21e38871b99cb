"""The destination of bytes: standard output, or a file that appears whole or not at all."""

import errno
import os
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from attn_cli.errors import InputError, OutputError, reason
from attn_cli.whole_file import WholeFile


class ReaderGone(Exception):
    """The reader of standard output closed it; the command ends without an error."""


class Sink:
    """Takes bytes; a context manager that publishes the file at a clean end and leaves no trace at any other.

    A file is replaced whole or not at all; one that exists raises OutputError unless `force`. Devices and pipes are
    written as they are. `instead` is what the error advises where standard output is closed.
    """

    def __init__(
        self, path: str | None, *, binary: bool = False, force: bool = False, instead: str = "add -o FILE"
    ) -> None:
        self.path: Path | None = None
        self.whole: WholeFile | None = None
        self.file: BinaryIO
        if path in (None, "-"):
            if sys.stdout is None:
                raise OutputError("standard output is closed", instead)
            if binary and sys.stdout.isatty():
                raise InputError("a terminal can't show this format", "add -o FILE, or pipe it on")
            self.file = sys.stdout.buffer
            return
        try:
            self.path = Path(path or "").expanduser().resolve()
            if self.path.is_dir() or (path or "").endswith(("/", os.sep)):
                raise OutputError(f"{path} is a folder", "give a file name")
            if self.path.exists() and not self.path.is_file():
                self.file = self.path.open("wb")
                return
            if self.path.exists() and not force:
                raise OutputError(f"{path} exists", "add --force to replace it")
            self.whole = WholeFile(self.path)
        except (OSError, ValueError, RuntimeError) as error:  # a NUL in the name; an unknown home folder
            raise OutputError(f"can't write {path}: {reason(error)}", "is the folder there and writable?") from error
        self.force, self.file = force, self.whole.file

    def write(self, data: bytes | memoryview) -> None:
        """Write `data`, standard output at once."""
        try:
            if self.path is None:
                sys.stdout.flush()
            self.file.write(data)
            if self.path is None:
                self.file.flush()
        except OSError as error:
            raise self._failure(error) from error

    def __enter__(self) -> "Sink":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.path is None:
            return
        try:
            if kind is None and self.whole is not None:
                self.whole.publish(force=self.force)
            elif kind is None:
                self.file.flush()
        except OSError as failure:
            raise self._failure(failure) from failure
        finally:
            if self.whole is not None:
                self.whole.close()
            with suppress(OSError):  # closing flushes again, and fails as above
                self.file.close()

    def _failure(self, error: OSError) -> Exception:
        if error.errno == errno.EPIPE:
            return ReaderGone()
        target_name = "standard output" if self.path is None else str(self.path)
        return OutputError(f"can't write {target_name}: {reason(error)}")
