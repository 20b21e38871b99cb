"""The state of a model's files, by which a change is noticed: names, sizes and times, or the commit."""

import os
import re
from importlib.util import find_spec
from pathlib import Path

_COMMIT = re.compile(r"[0-9a-f]{40}")


def split_revision(model: str) -> tuple[str, str | None]:
    """The hub's id of a name that is no path, and the branch, tag or commit after its @; None without one.

    >>> split_revision("gpt2@v1"), split_revision("gpt2")
    (('gpt2', 'v1'), ('gpt2', None))
    """
    name, _, revision = model.partition("@")
    return (name, revision) if revision else (model, None)


def file_state(path: str) -> list[object] | None:
    """A file's path, and its name, size in bytes and time of change in nanoseconds; None where it can't be read."""
    try:
        return [str(Path(path).expanduser().resolve()), _of_file(Path(path).expanduser())]
    except (OSError, RuntimeError, ValueError):
        return None


def library_state() -> list[object]:
    """What tells later whether torch or transformers changed: path, size and time of each package's first file."""
    found = [find_spec(name) for name in ("torch", "transformers")]
    return [file_state(spec.origin) if spec is not None and spec.origin else None for spec in found]


def _of_file(path: Path) -> list[object]:
    status = path.stat()
    return [path.name, status.st_size, status.st_mtime_ns]


def snapshot(model: str) -> Path | None:
    """The folder in which the hub's cache keeps the files of `id` or `id@revision`; None where it isn't there."""
    name, revision = split_revision(model)
    commit = _commit(name, revision or "main")
    folder = None if commit is None else _cached(name) / "snapshots" / commit
    return folder if folder is not None and folder.is_dir() else None


def _commit(model: str, revision: str) -> str | None:
    """The commit of a branch in the hub's cache, as its own file of that name says."""
    if _COMMIT.fullmatch(revision):
        return revision
    try:
        return (_cached(model) / "refs" / revision).read_text("ascii").strip()
    except (OSError, ValueError):
        return None


def _cached(model: str) -> Path:
    home = os.environ.get("HF_HOME") or f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/huggingface"
    hub = Path(os.environ.get("HF_HUB_CACHE") or f"{home}/hub").expanduser()
    return hub / f"models--{model.replace('/', '--')}"
