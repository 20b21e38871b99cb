"""Values that a shell completes: models, masks, formats, devices, schemas, pages of the guide."""

from pathlib import Path

from attn_cli.views.formats import format_names

_MOST_FILES = 200
_GUIDE = Path(__file__).parents[3] / "guide"


def models(incomplete: str) -> list[str]:
    """Completions of --model: built-in tables, models in the cache, and model folders, .gguf files and tables here."""
    from attn_cli.sources import TABLE_SUFFIXES  # here, as below: only a shell that completes needs them

    names = [*_built_in(incomplete), *_cached()]
    return [name for name in names if name.startswith(incomplete)] + _files(incomplete, (*TABLE_SUFFIXES, ".gguf"))


def _built_in(incomplete: str) -> list[str]:
    if not incomplete.startswith("toy:"):
        return ["toy", "toy:"]
    from attn_cli.sources.tables import TABLE_NAMES

    return [f"toy:{name}" for name in TABLE_NAMES]


def tables(incomplete: str) -> list[str]:
    """Completions of a table's name, typed so far as `incomplete`: built-in tables, and files with a table's suffix."""
    return [name for name in models(incomplete) if name.startswith("toy") or "." in Path(name).name]


def masks(incomplete: str) -> list[str]:
    """Completions of --mask, typed so far as `incomplete`: names, some with a number, and files of arrays."""
    from attn_cli.sources.matrices.mask_syntax import MASKS

    names = [entry.example or entry.name for entry in MASKS]
    return [name for name in names if name.startswith(incomplete)] + _files(incomplete, (".npy", ".npz", ".csv"))


def formats(incomplete: str) -> list[str]:
    """The names of output formats that begin with `incomplete`."""
    return [name for name in format_names() if name.startswith(incomplete)]


def dtypes(incomplete: str) -> list[str]:
    """Completions of --dtype: the number types that a model may run in, of those that begin with `incomplete`."""
    from attn_cli.sources.devices import DTYPES

    return [name for name in DTYPES if name.startswith(incomplete)]


def devices(incomplete: str) -> list[str]:
    """Completions of --device: auto, cpu, cuda, cuda:0 and mps, of these what begins with `incomplete`."""
    return [name for name in ("auto", "cpu", "cuda", "cuda:0", "mps") if name.startswith(incomplete)]


def schemas(incomplete: str) -> list[str]:
    """The names of JSON schemas that begin with `incomplete`."""
    from attn_cli.views.schemas import schema_names

    return [name for name in schema_names if name.startswith(incomplete)]


def topics(incomplete: str) -> list[str]:
    """The names of pages of the guide that begin with `incomplete`."""
    return sorted(page.stem for page in _GUIDE.glob("*.md") if page.stem.startswith(incomplete))


def _cached() -> list[str]:
    try:
        from attn_cli.sources.huggingface.load.cache import cached_names
    except ImportError:
        return []
    return cached_names()


def _files(incomplete: str, suffixes: tuple[str, ...]) -> list[str]:
    """Folders, and files with these suffixes, whose path begins so; a folder ends with a slash."""
    folder, _, begin = incomplete.rpartition("/")
    base = Path(folder + "/").expanduser() if "/" in incomplete else Path()
    try:
        entries = sorted(base.iterdir())[:_MOST_FILES]
    except (OSError, ValueError, RuntimeError):
        return []
    before = f"{folder}/" if "/" in incomplete else ""
    return [
        f"{before}{entry.name}{'/' if entry.is_dir() else ''}"
        for entry in entries
        if entry.name.startswith(begin)
        and (begin or not entry.name.startswith("."))
        and (entry.is_dir() or entry.suffix.lower() in suffixes)
    ]
