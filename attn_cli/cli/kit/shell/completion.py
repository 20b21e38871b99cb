"""Values that a shell completes: names of a list, models, tables."""

from collections.abc import Callable, Iterable


def one_of(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """A completion: those of the names that begin with what is typed so far."""
    return lambda incomplete: [name for name in names() if name.startswith(incomplete)]


def models(incomplete: str) -> list[str]:
    """Completions of --model: built-in tables and models in the cache; without any a shell completes files."""
    from attn_cli.sources.huggingface.load.cache import cached_names  # here, as below

    return [*tables(incomplete), *one_of(cached_names)(incomplete)]


def tables(incomplete: str) -> list[str]:
    """Completions of a table's name, typed so far as `incomplete`: those built in."""
    from attn_cli.sources.tables import TABLE_NAMES  # here: only a shell that completes needs it

    inside = incomplete.startswith("toy:")
    return one_of(lambda: [f"toy:{name}" for name in TABLE_NAMES] if inside else ["toy", "toy:"])(incomplete)
