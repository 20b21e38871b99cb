"""A budget as it is asked for: windows, top keys, formats, and the target of a plan."""

from dataclasses import dataclass, field

from attn_cli.errors import InputError
from attn_cli.model.kv_cache import CACHE_FORMATS
from attn_cli.summaries.budget.plan import BudgetTarget

DEFAULT_BITS = 0.01
"""Bits a token that a plan may lose where nobody says."""
_PERCENT = 100


@dataclass(frozen=True)
class Asked:
    """The parts of the cache that `attn budget` is asked to price.

    window   the last keys that a windowed head keeps; an eighth of the text, at most 256, where it is None
    first    the first keys that it keeps besides
    scored   how many of the last tokens of each text are scored; where it is None an eighth, at most 512
    top      price the keys of the highest scores alone, so many; None for no
    keys, values  formats in which keys and values of each layer are rounded; "" for no
    windows  whether windows are priced
    target   what a plan is made for; None for no plan
    """

    window: int | None = None
    first: int = 4
    scored: int | None = None
    top: int | None = None
    keys: str = ""
    values: str = ""
    windows: bool = True
    target: BudgetTarget | None = field(default_factory=lambda: BudgetTarget(DEFAULT_BITS, None))

    @classmethod
    def of(
        cls,
        *,
        window: int | None = None,
        first: int = 4,
        scored: int | None = None,
        top_keys: int | None = None,
        kv: str | None = None,
        target: float | None = None,
        memory: float | None = None,
        plan: bool = True,
    ) -> "Asked":
        """By the words of people: windows are priced unless top keys or formats are, or with `window` beside these.

        kv      "q8_0" for keys and values, "q8_0/q4_0" for each; "f16" rounds nothing; None for no formats
        target  bits a token that a plan may lose
        memory  the cache that it may keep instead, in percent

        Raises InputError for a format that isn't known, for two targets, and for numbers out of range.
        """
        least = {"window": (window, 1), "first": (first, 0), "scored": (scored, 1), "top_keys": (top_keys, 1),
                 "target": (target, 0), "memory": (memory, 0)}  # fmt: skip
        for name, (number, smallest) in least.items():
            if number is not None and number < smallest:
                raise InputError(f"{name} is {number}", f"give {smallest} or more")
        if target is not None and memory is not None:
            raise InputError("target and memory at once", "a plan is for bits or for a cache; leave out one of them")
        keys, values = _formats(kv)
        wanted = BudgetTarget(DEFAULT_BITS if target is None else target, None)
        if memory is not None:
            wanted = BudgetTarget(None, memory / _PERCENT)
        return cls(
            window, first, scored, top_keys, keys, values,
            windows=window is not None or (top_keys is None and kv is None),
            target=wanted if plan else None,
        )  # fmt: skip


def _formats(kv: str | None) -> tuple[str, str]:
    """The formats of keys and values; "" for none. InputError for one that isn't known."""
    if kv is None:
        return "", ""
    keys, _, values = kv.partition("/")
    names = ["" if name == "f16" else name for name in (keys, values or keys)]
    for name in names:
        if name and name not in CACHE_FORMATS:
            raise InputError(f"no cache format is called {name!r}", f"one of f16, {', '.join(CACHE_FORMATS)}")
    if not any(names):
        raise InputError(f"{kv} rounds nothing", f"give one of {', '.join(CACHE_FORMATS)}")
    return names[0], names[1]
