"""A file that appears whole or not at all: written beside its target under another name, and renamed at the end."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from attn_cli.errors import OutputError
from attn_cli.interrupts import unfinished


class WholeFile:
    """A file that appears whole or not at all: written beside `target`, until `publish` renames it."""

    def __init__(self, target: Path) -> None:
        if target.exists() and not target.is_file():  # a device would become a file for everybody
            raise OutputError(f"{target} is not a file", "give the name of a file")
        handle, name = tempfile.mkstemp(prefix=".attn-", suffix=".part", dir=target.parent)
        self.target, self.temporary = target, Path(name)
        unfinished.add(self.temporary)
        self.file = os.fdopen(handle, "wb")

    def publish(self, *, force: bool) -> None:
        """Flush the file to disk and give it its target's name and mode, with `force` in place of an older one."""
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        umask = os.umask(0)
        os.umask(umask)
        mode = self.target.stat().st_mode & 0o777 if self.target.exists() else 0o666 & ~umask
        self.temporary.chmod(mode)  # mkstemp makes it private
        if not force:
            _claim(self.temporary, self.target)
        self.temporary.replace(self.target)

    def close(self) -> None:
        """Close the file, and remove it if it was not published."""
        with suppress(OSError):  # closing flushes again, and fails as before
            self.file.close()
        self.temporary.unlink(missing_ok=True)
        unfinished.discard(self.temporary)


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
