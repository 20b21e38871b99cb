"""Models of packed files, kept unpacked: folders of the user's cache, bounded in size and readable by their owner."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from attn_cli._version import __version__
from attn_cli.interrupts import unfinished
from attn_cli.kept.folder import KeptFile
from attn_cli.kept.model_files import file_state, library_state

_PRIVATE = 0o700


class UnpackedModels:
    """A cache of models unpacked from single files (.gguf), a folder each.

    A folder is found again as long as the file and the libraries that read it stay as they were.

    most  bytes that all of them may take together: the least recently used are deleted
    """

    def __init__(self, path: Path, most: int) -> None:
        self.path, self.most = path, most

    def find(self, file: Path) -> Path | None:
        """The folder that `file` was unpacked to, which counts as used now; None where there is none."""
        folder = self.path / _name(file)
        try:
            os.utime(folder)
        except OSError:
            return None
        return folder

    def keep(self, file: Path, size: int, write: Callable[[Path], object]) -> None:
        """Keep what `write` writes into a folder for `file`, whole or not at all; nothing if `size` bytes are too
        many.
        """
        if size > self.most:
            return
        self.path.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".attn-", dir=self.path))  # of mode 0700
        unfinished.add(temporary)
        try:
            write(temporary)
            temporary.replace(self.path / _name(file))
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
            unfinished.discard(temporary)
        self._let_go(_name(file))

    def remove(self, folder: Path) -> None:
        """Delete one unpacked model from disk."""
        shutil.rmtree(folder, ignore_errors=True)

    def models(self) -> list[KeptFile]:
        """All kept folders with their size in bytes and time of use, the least recently used first."""
        found = []
        with suppress(OSError):
            for entry in self.path.iterdir():
                if entry.is_dir() and not entry.name.startswith("."):
                    with suppress(OSError):
                        size = sum(each.stat().st_size for each in entry.iterdir())
                        found.append(KeptFile(entry, entry.stat().st_mtime_ns, size))
        return sorted(found, key=lambda each: each.used)

    def clear(self) -> int:
        """Delete all unpacked models; returns the bytes that this frees on disk."""
        models = self.models()
        for each in models:
            self.remove(each.path)
        return sum(each.size for each in models)

    def _let_go(self, newest: str) -> None:
        models = self.models()
        total = sum(each.size for each in models)
        for each in models:
            if total > self.most and each.path.name != newest:
                self.remove(each.path)
                total -= each.size


def _name(file: Path) -> str:
    asked = [__version__, library_state(), file_state(str(file.resolve()))]
    return blake2b(json.dumps(asked).encode(), digest_size=16).hexdigest()
