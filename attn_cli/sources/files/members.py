"""The choice among several named arrays of a file."""

import difflib
from collections.abc import Sequence

from attn_cli.errors import InputError
from attn_cli.text import counted, excerpt, listed

_ALIASES = {
    "q": ("query", "queries"),
    "k": ("key", "keys"),
    "v": ("value", "values"),
    "mask": ("attention_mask",),
}


def choose_member(names: Sequence[str], member: str | None, role: str, label: str) -> str:
    """The array to read from a file: `member` if given, else the only one, else the one that is `role`; InputError.

    >>> choose_member(["Query", "K"], None, "q", "heads.npz")
    'Query'
    """
    if not names:
        raise InputError(f"{label} holds no arrays", "save at least one array in it")
    if member is not None:
        return _named(names, member, label)
    if len(names) == 1:
        return names[0]
    fitting = member_for(names, role)
    if fitting is not None:
        return fitting
    raise InputError(
        f"{label} holds {counted(len(names), 'array')} and it isn't clear which is {role}: "
        f"{listed(map(excerpt, names))}",
        f"choose one: {label}:NAME",
    )


def member_for(names: Sequence[str], role: str) -> str | None:
    """The array whose name says that it is `role`: k is also K, key, keys; None where none or several do."""
    if role in names:
        return role
    for word in (role, *_ALIASES.get(role, ())):
        fitting = [name for name in names if _folded(name) == _folded(word)]
        if len(fitting) == 1:
            return fitting[0]
    return None


def _named(names: Sequence[str], member: str, label: str) -> str:
    if member in names:
        return member
    close = difflib.get_close_matches(member, names, n=1)
    guess = f"did you mean {excerpt(close[0], 60)}? " if close else ""
    raise InputError(
        f"{label} has no array called {excerpt(member, 60)!r}", f"{guess}it holds {listed(map(excerpt, names))}"
    )


def _folded(name: str) -> str:
    return name.casefold().replace("_", "")
