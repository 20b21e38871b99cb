"""A budget as it is asked for: windows, top keys, formats, and the target of a plan."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from attn_cli.errors import InputError
from attn_cli.model.kv_cache import CACHE_FORMATS
from attn_cli.summaries.budget.plan import BudgetTarget

DEFAULT_BITS = 0.01
"""Bits a token that a plan may lose where nobody says."""
_PERCENT = 100


@dataclass(frozen=True)
class Asked:
    """What `attn budget` is asked: which parts of the KV cache to price, on how many tokens, and what to plan.

    The price of a part is the rise of -log2 p, in bits a scored token, without it.

    window   how many of the last keys a windowed head keeps; None: an eighth of the text's tokens, from 16 to 256
    first    how many of the first keys it keeps besides
    scored   how many tokens at the end of each text are scored; None: an eighth, from 16 to 512. Where there is a plan
             they stand before as many more, the text's last, which are held back to check it
    top      price that each query sees only so many keys, those of the highest scores; None for no
    keys, values  formats, such as "q8_0", in which keys and values of each layer are rounded; "" for no
    windows  whether windows on key heads are priced
    target   the loss, share of the cache or share of heads that a plan must stay within; None for no plan
    """

    window: int | None = None
    first: int = 4
    scored: int | None = None
    top: int | None = None
    keys: str = ""
    values: str = ""
    windows: bool = True
    target: BudgetTarget | None = field(default_factory=lambda: BudgetTarget(DEFAULT_BITS, None))

    @property
    def plans(self) -> bool:
        """True if a plan of what to take from the cache at once is made.

        It needs a target (a loss, a share of the cache or a share of heads to stay within), and windows or rounding to
        choose from.
        """
        return self.target is not None and bool(self.windows or self.keys or self.values)

    @classmethod
    def of(
        cls,
        *,
        window: int | None = None,
        first: int = 4,
        scored: int | None = None,
        top_keys: int | None = None,
        kv: str | None = None,
        target: BudgetTarget | None = None,
    ) -> "Asked":
        """The request that arguments make.

        The loss with each window is measured if `window` is given, or neither top keys nor formats are.

        window, first, scored, top_keys  how many last keys a window keeps, how many first keys besides, how many tokens
                are scored, and how many keys a query sees; as the fields of these names, top_keys as `top`
        kv      "q8_0" for keys and values, "q8_0/q4_0" for each; "f16" rounds nothing; None for no formats
        target  what a plan must stay within, as `target_of` makes it; None for no plan

        Raises InputError for a format that isn't known, for a plan of heads without windows, and for numbers out of
        range.
        """
        _check_least({"window": (window, 1), "first": (first, 0), "scored": (scored, 1), "top_keys": (top_keys, 1)})
        windows = window is not None or (top_keys is None and kv is None)
        if target is not None and target.heads is not None and (not windows or kv is not None):
            raise InputError("heads are planned for windows", "leave out --kv and --top-keys")
        keys, values = _formats(kv)
        return cls(window, first, scored, top_keys, keys, values, windows=windows, target=target)


def target_of(target: float | None = None, memory: float | None = None, heads: str | None = None) -> BudgetTarget:
    """The target of a plan; 0.01 bits a token where no argument is given.

    target  bits a token by which -log2 p may rise
    memory  the cache that it may keep instead, in percent
    heads   a window for this share of the key heads instead: "1/3" or "33%"

    Raises InputError for two of them, and for numbers out of range.
    """
    given = {
        name: value for name, value in (("target", target), ("memory", memory), ("heads", heads)) if value is not None
    }
    if len(given) > 1:
        raise InputError(f"{' and '.join(given)} at once", "a plan is for one of them; leave out the others")
    _check_least({"target": (target, 0), "memory": (memory, 0)})
    if heads is not None:
        return BudgetTarget(None, None, _share(heads))
    if memory is not None:
        return BudgetTarget(None, memory / _PERCENT)
    return BudgetTarget(DEFAULT_BITS if target is None else target, None)


def _check_least(numbers: Mapping[str, tuple[float | None, int]]) -> None:
    """InputError for a number under its least."""
    for name, (number, smallest) in numbers.items():
        if number is not None and number < smallest:
            raise InputError(f"{name} is {number}", f"give {smallest} or more")


def _share(words: str) -> float:
    """The share that is written as a fraction or in percent; InputError for none of 0 to 1.

    >>> _share("1/4"), _share("25%")
    (0.25, 0.25)
    """
    top, _, bottom = words.removesuffix("%").partition("/")
    try:
        share = float(top) / (_PERCENT if words.endswith("%") else float(bottom))
    except (ValueError, ZeroDivisionError):
        share = -1.0
    if not 0 < share <= 1:
        raise InputError(f"heads is {words!r}, no share of all", "give one such as 1/3 or 33%")
    return share


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
