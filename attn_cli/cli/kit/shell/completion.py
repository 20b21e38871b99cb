"""Values that a shell completes: names of a list, models, tables."""

from collections.abc import Callable, Iterable
from contextlib import suppress


def one_of(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """A completion: those of the names that begin with what is typed so far."""
    return lambda incomplete: [name for name in names() if name.startswith(incomplete)]


def models(incomplete: str) -> list[str]:
    """Completions of --model: built-in tables and models in the cache; without any a shell completes files."""
    names = _built_in(incomplete)
    with suppress(ImportError):
        from attn_cli.sources.huggingface.load.cache import cached_names

        names += cached_names()
    return one_of(lambda: names)(incomplete)


def tables(incomplete: str) -> list[str]:
    """Completions of a table's name, typed so far as `incomplete`: those built in."""
    return one_of(lambda: _built_in(incomplete))(incomplete)


def _built_in(incomplete: str) -> list[str]:
    from attn_cli.sources.tables import TABLE_NAMES  # here: only a shell that completes needs it

    return [f"toy:{name}" for name in TABLE_NAMES] if incomplete.startswith("toy:") else ["toy", "toy:"]
