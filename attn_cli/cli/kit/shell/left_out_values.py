"""Options whose value may be left out, such as --why: it is then the first of its choices."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, get_args, get_origin


def with_left_out(parameters: Iterable[Any], words: Sequence[str]) -> list[str]:
    """The words of a command line, with the first of an option's choices put in where its value was left out."""
    choices = {name: _choices(parameter) for parameter in parameters for name in parameter.opts}
    end = words.index("--") if "--" in words else len(words)
    filled: list[str] = []
    for at, word in enumerate(words):
        filled.append(word)
        known = choices.get(word, ()) if at < end else ()
        if not (at + 1 < end and words[at + 1] in known):
            filled += known[:1]
    return filled


def _choices(parameter: Any) -> tuple[str, ...]:
    kind = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    is_optional = str(getattr(parameter, "metavar", "")).startswith("[")
    return get_args(kind) if is_optional and get_origin(kind) is Literal else ()
