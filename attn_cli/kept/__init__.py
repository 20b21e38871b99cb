"""Models of .gguf files, kept unpacked: at most 4 GB in the user's cache, readable by their owner alone."""

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


def place_of(file: Path) -> Path | None:
    """The folder for what a .gguf file is unpacked to, whether it is there or not; None where none is kept."""
    folder = _folder()
    if folder is None or not file.is_file():
        return None
    file, status = file.resolve(), file.stat()
    asked = [__version__, [*map(version, ("torch", "transformers"))], str(file), status.st_size, status.st_mtime_ns]
    return folder / f"{file.stem}-{blake2b(json.dumps(asked).encode(), digest_size=8).hexdigest()}"


def keep(place: Path, size: int, write: Callable[[Path], object]) -> None:
    """Keep what `write` writes at a place, whole or not at all; the least recently used go where all are too many."""
    if size > MOST:
        return
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=".attn-", dir=place.parent))  # of mode 0700
    unfinished.add(temporary)
    try:
        write(temporary)
        temporary.replace(place)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        unfinished.discard(temporary)
    kept = sizes()
    total = sum(kept.values())
    for folder, size in kept.items():
        if total > MOST and folder != place:
            shutil.rmtree(folder, ignore_errors=True)
            total -= size


def sizes() -> dict[Path, int]:
    """The kept folders with their sizes in bytes, the least recently used first."""
    used, kept = dict[Path, tuple[int, int]](), _folder()
    with suppress(OSError):
        for folder in [] if kept is None else kept.glob("[!.]*"):
            with suppress(OSError):
                used[folder] = folder.stat().st_mtime_ns, sum(each.stat().st_size for each in folder.iterdir())
    return {folder: size for folder, (_, size) in sorted(used.items(), key=lambda item: item[1])}


def _folder() -> Path | None:
    setting = os.environ.get("ATTN_CACHE")
    if setting is not None and setting.lower() in _OFF:
        return None
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return Path(f"{caches}/attn" if setting is None else setting).expanduser() / "models"
    except RuntimeError:  # nobody knows the home folder
        return None
