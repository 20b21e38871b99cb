"""Sizes in bytes as people write them: 500kB, 2GB."""

import re

from attn_cli.errors import InputError
from attn_cli.text import cut

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_HINT = "a number of kB, MB or GB, such as 500kB, 8MB or 2GB"


def bytes_of(size: str, option: str) -> int:
    """The bytes that a size means; InputError, with the name of the option, for one that means none or has no unit.

    >>> bytes_of("2GB", "--memory"), bytes_of("1.5 g", "--memory"), bytes_of("500kB", "--memory")
    (2000000000, 1500000000, 500000)
    """
    parts = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?) *(?:([kmgt])i?b?|b)", size.strip().lower())
    if parts is None:
        raise InputError(f"{option} {cut(size, 40)!r} is not a valid size", _HINT)
    return int(float(parts[1]) * _UNITS[parts[2] or ""])
