"""Where bytes go: standard output, or a file that appears whole or not at all."""

import errno
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from attn_cli.errors import InputError, OutputError, reason
from attn_cli.interrupts import unfinished


class ReaderGone(Exception):
    """The reader of standard output closed it; the command ends without an error."""


class Sink:
    """Takes bytes; a context manager that publishes the file at a clean end and leaves no trace at any other.

    A file is written beside its target under another name, flushed to disk and renamed, so a reader sees the old file
    or the whole new one. An existing target is refused unless `force`. Devices and pipes are written as they are.
    """

    def __init__(self, path: str | None, *, binary: bool = False, force: bool = False) -> None:
        self.path: Path | None = None
        self.temporary: Path | None = None
        self.file: BinaryIO
        if path in (None, "-"):
            if sys.stdout is None:
                raise OutputError("standard output is closed", "add -o FILE")
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
            handle, name = tempfile.mkstemp(prefix=".attn-", suffix=".part", dir=self.path.parent)
        except (OSError, ValueError, RuntimeError) as error:  # a NUL in the name; an unknown home folder
            raise OutputError(f"can't write {path}: {reason(error)}",
                              "is the folder there and writable?") from error  # fmt: skip
        self.temporary = Path(name)
        self.force = force
        unfinished.add(self.temporary)
        self.file = os.fdopen(handle, "wb")

    def write(self, data: bytes | memoryview, at: int | None = None) -> None:
        """Pass `data` on; standard output gets it at once. With `at` it goes to that place of a file."""
        try:
            if at is not None:
                self.file.seek(at)
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
            if kind is None:
                self._publish(self.path)
        except OSError as failure:
            raise self._failure(failure) from failure
        finally:
            with suppress(OSError):  # closing flushes again, and fails as above
                self.file.close()
            if self.temporary is not None:
                self.temporary.unlink(missing_ok=True)
                unfinished.discard(self.temporary)

    def _publish(self, path: Path) -> None:
        self.file.flush()
        if self.temporary is None:
            return
        os.fsync(self.file.fileno())
        self.file.close()
        umask = os.umask(0)
        os.umask(umask)
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~umask
        self.temporary.chmod(mode)  # mkstemp makes it private
        if not self.force:
            _claim(self.temporary, path)
        self.temporary.replace(path)

    def _failure(self, error: OSError) -> Exception:
        if error.errno == errno.EPIPE:
            return ReaderGone()
        target_name = "standard output" if self.path is None else str(self.path)
        return OutputError(f"can't write {target_name}: {reason(error)}")


def _claim(temporary: Path, path: Path) -> None:
    """Take the name `path`, which is free, for a file; OutputError where another run took it meanwhile."""
    try:
        try:
            os.link(temporary, path)  # whole at once
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        raise OutputError(f"{path} exists: it was written meanwhile", "add --force to replace it") from None
