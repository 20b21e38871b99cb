"""A folder of the user's cache, bounded in size and readable by its owner, whose files may be gone at any time.

Every failure here is no failure of the command: what can't be kept is computed again.
"""

import os
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from attn_cli.interrupts import unfinished

OFF = ("off", "0", "no", "none", "false")
ALL = "all"  # keeps runs on piped texts too, in the usual folder
DEFAULT_BYTES = 256 * 10**6
_DIGEST = 16  # bytes
_PRIVATE_FOLDER, _PRIVATE_FILE = 0o700, 0o600


class KeptFile(NamedTuple):
    """A file in a cache: when it was last used, in nanoseconds since 1970, and its size in bytes."""

    path: Path
    used: int
    size: int


def cache_folder(setting: str | None = None) -> Path | None:
    """The folder in which finished runs are kept for later commands; None where none are kept."""
    if setting is not None and setting.lower() in ("", *OFF):
        return None
    try:
        if setting is not None and setting.lower() != ALL:
            return Path(setting).expanduser()
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        return Path(base).expanduser() / "attn"
    except RuntimeError:  # nobody knows the home folder
        return None


class KeptFolder:
    """A folder of files by name, of at most `most` bytes: the least recently used are deleted, never the newest."""

    def __init__(self, path: Path, most: int = DEFAULT_BYTES) -> None:
        self.path, self.most = path, most

    def find(self, name: str) -> Path | None:
        """The file of that name, which counts as used now; None where there is none."""
        path = self.path / name
        try:
            content = path.read_bytes()
            if _digest([content[:-_DIGEST]]) != content[-_DIGEST:]:
                self.remove(name)
                return None
            status = path.stat()
            os.utime(path, ns=(max(status.st_atime_ns + 1, time.time_ns()), status.st_mtime_ns))
        except OSError:
            return None
        return path

    def write(self, name: str, content: Sequence[bytes | memoryview]) -> None:
        """Write a file of these pieces and a digest, whole or not at all; older files are deleted until all fit."""
        self.path.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".attn-", suffix=".part", dir=self.path)  # of mode 0600
        unfinished.add(Path(temporary))
        try:
            with os.fdopen(handle, "wb") as file:
                file.writelines([*content, _digest(content)])
            Path(temporary).chmod(_PRIVATE_FILE)
            Path(temporary).replace(self.path / name)
        finally:
            Path(temporary).unlink(missing_ok=True)
            unfinished.discard(Path(temporary))
        self._let_go(name)

    def remove(self, name: str) -> None:
        """Delete the file of this name; one that is gone already is no error."""
        with suppress(OSError):
            (self.path / name).unlink()

    def files(self) -> list[KeptFile]:
        """All files, the least recently used first."""
        found = []
        with suppress(OSError):
            for entry in os.scandir(self.path):
                with suppress(OSError):
                    if entry.is_file(follow_symlinks=False) and not entry.name.startswith("."):
                        status = entry.stat(follow_symlinks=False)
                        used = max(status.st_atime_ns, status.st_mtime_ns)
                        found.append(KeptFile(Path(entry.path), used, status.st_size))
        return sorted(found, key=lambda each: each.used)

    def clear(self) -> int:
        """Delete all files; returns their size in bytes."""
        files = self.files()
        for each in files:
            self.remove(each.path.name)
        return sum(each.size for each in files)

    def _let_go(self, newest: str) -> None:
        files = self.files()
        total = sum(each.size for each in files)
        for each in files:
            if total <= self.most:
                break
            if each.path.name != newest:
                self.remove(each.path.name)
                total -= each.size


def _digest(content: Iterable[bytes | memoryview]) -> bytes:
    digest = blake2b(digest_size=_DIGEST)
    for piece in content:
        digest.update(piece)
    return digest.digest()
