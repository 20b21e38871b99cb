"""Values that a shell completes: names of a list, models, tables."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

_MOST_FILES = 200


def one_of(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """A completion: those of the names that begin with what is typed so far."""
    return lambda incomplete: [name for name in names() if name.startswith(incomplete)]


def models(incomplete: str) -> list[str]:
    """Completions of --model: built-in tables, models in the cache, and model folders, .gguf files and tables here."""
    from attn_cli.sources import TABLE_SUFFIXES  # here, as below: only a shell that completes needs them
    from attn_cli.sources.tables import TABLE_NAMES

    names = [f"toy:{name}" for name in TABLE_NAMES] if incomplete.startswith("toy:") else ["toy", "toy:"]
    with suppress(ImportError):
        from attn_cli.sources.huggingface.load.cache import cached_names

        names += cached_names()
    return one_of(lambda: names)(incomplete) + _files(incomplete, (*TABLE_SUFFIXES, ".gguf"))


def tables(incomplete: str) -> list[str]:
    """Completions of a table's name, typed so far as `incomplete`: built-in tables, and files with a table's suffix."""
    return [name for name in models(incomplete) if name.startswith("toy") or "." in Path(name).name]


def _files(incomplete: str, suffixes: tuple[str, ...]) -> list[str]:
    """Folders, and files with these suffixes, whose path begins so; a folder ends with a slash."""
    folder, slash, begin = incomplete.rpartition("/")
    try:
        entries = sorted(Path(folder + slash).expanduser().iterdir())[:_MOST_FILES]
    except (OSError, ValueError, RuntimeError):
        return []
    return [
        f"{folder}{slash}{entry.name}{'/' if entry.is_dir() else ''}"
        for entry in entries
        if entry.name.startswith(begin)
        and (begin or not entry.name.startswith("."))
        and (entry.is_dir() or entry.suffix.lower() in suffixes)
    ]
