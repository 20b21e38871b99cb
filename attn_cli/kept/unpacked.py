"""Models of packed files, kept unpacked: folders of the user's cache, bounded in size and readable by their owner."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path

from attn_cli._version import __version__
from attn_cli.interrupts import unfinished

_OFF = ("", "off", "0", "no", "none", "false")
MOST = 4 * 10**9  # bytes of all of them
_PRIVATE = 0o700


def unpacked_models() -> "UnpackedModels | None":
    """The folder of the user's cache in which models of .gguf files are kept, by ATTN_CACHE; None where none are."""
    setting = os.environ.get("ATTN_CACHE")
    if setting is not None and setting.lower() in _OFF:
        return None
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return UnpackedModels(Path(f"{caches}/attn" if setting is None else setting).expanduser() / "models")
    except RuntimeError:  # nobody knows the home folder
        return None


class UnpackedModels:
    """A cache of at most 4 GB of models unpacked from .gguf files, the least recently used deleted first."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def find(self, file: Path) -> Path | None:
        """The folder that `file` was unpacked to, which counts as used now; None where there is none."""
        try:
            folder = self.path / _name(file)
            os.utime(folder)
        except OSError:
            return None
        return folder

    def keep(self, file: Path, size: int, write: Callable[[Path], object]) -> None:
        """Keep what `write` writes for `file`, whole or not at all; nothing if `size` bytes are too many."""
        if size > MOST:
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
        total = sum(self.sizes().values())
        for folder, size in self.sizes().items():
            if total > MOST and folder != self.path / _name(file):
                self.remove(folder)
                total -= size

    def remove(self, folder: Path) -> None:
        """Delete one unpacked model from disk."""
        shutil.rmtree(folder, ignore_errors=True)

    def sizes(self) -> dict[Path, int]:
        """The kept folders with their sizes in bytes, the least recently used first."""
        used: dict[Path, tuple[int, int]] = {}
        with suppress(OSError):
            for folder in self.path.glob("[!.]*"):
                with suppress(OSError):
                    used[folder] = folder.stat().st_mtime_ns, sum(each.stat().st_size for each in folder.iterdir())
        return {folder: size for folder, (_, size) in sorted(used.items(), key=lambda item: item[1])}


def _name(file: Path) -> str:
    file, status = file.resolve(), file.stat()
    libraries = [version(name) for name in ("torch", "transformers")]
    asked = [__version__, libraries, str(file), status.st_size, status.st_mtime_ns]
    return f"{file.stem}-{blake2b(json.dumps(asked).encode(), digest_size=8).hexdigest()}"
