"""Numbers written in an option, with commas between them."""

import math

from attn_cli.errors import InputError


def numbers_in(text: str, option: str, hint: str) -> list[float]:
    """The finite numbers in `text`; InputError with `hint` for anything else.

    >>> numbers_in("1,0.5", "--sink", "one per head")
    [1.0, 0.5]
    """
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{option} {text!r} is not numbers", hint) from None
    if not all(math.isfinite(number) for number in numbers):
        raise InputError(f"{option} {text!r} is not finite", hint)
    return numbers
