"""Good files spoilt at random, the same way for the same seed: what a damaged download or a hostile hand may leave."""

import json
import random
import re
import warnings
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np

_SIZES = (0, 1, 255, 256, 65535, 2**31 - 1, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**64 - 1)
_WILD = (b"-1", b"0", b"1e999", b"9" * 30, b"9" * 5000, b"NaN", b"1.5", b"null", b"true", b'"x"', b"[]", b"{}",
         b"1_0", b"0x10", b"[[" * 600, b'{"a":' * 600, b"18446744073709551616")  # fmt: skip
_ODD_BYTES = (0, 9, 10, 27, 32, 34, 44, 58, 91, 123, 127, 128, 255)


def spoilt(content: bytes, chance: random.Random) -> bytes:
    """`content` after one to four mutations, half of them near its start, where headers are."""
    for _ in range(chance.randint(1, 4)):
        if not content:
            return chance.randbytes(chance.randint(0, 40))
        nearest = min(len(content), 200) if chance.random() < 0.5 else len(content)
        content = chance.choice(_MUTATIONS)(content, chance.randrange(nearest), chance)
    return content


def _flip(content: bytes, at: int, chance: random.Random) -> bytes:
    return content[:at] + bytes([content[at] ^ 1 << chance.randrange(8)]) + content[at + 1 :]


def _odd_byte(content: bytes, at: int, chance: random.Random) -> bytes:
    return content[:at] + bytes([chance.choice(_ODD_BYTES)]) + content[at + 1 :]


def _cut(content: bytes, at: int, chance: random.Random) -> bytes:
    return content[:at]


def _shorten(content: bytes, at: int, chance: random.Random) -> bytes:
    return content[:at] + content[at + chance.randint(1, 30) :]


def _repeat(content: bytes, at: int, chance: random.Random) -> bytes:
    return content[:at] + content[at : at + chance.randint(1, 60)] * 2 + content[at:]


def _insert(content: bytes, at: int, chance: random.Random) -> bytes:
    return content[:at] + chance.randbytes(chance.randint(1, 16)) + content[at:]


def _size(content: bytes, at: int, chance: random.Random) -> bytes:
    """A number of 2, 4 or 8 bytes replaced by an extreme one."""
    width = chance.choice((2, 4, 8))
    size = (chance.choice(_SIZES) & 256**width - 1).to_bytes(width, chance.choice(("little", "big")))
    return content[:at] + size + content[at + width :]


def _number(content: bytes, at: int, chance: random.Random) -> bytes:
    """A number in a text replaced by a wild one."""
    places = [*re.finditer(rb"-?\d+", content[:4000])]
    if not places:
        return _flip(content, at, chance)
    place = chance.choice(places)
    return content[: place.start()] + chance.choice(_WILD) + content[place.end() :]


_MUTATIONS: tuple[Callable[[bytes, int, random.Random], bytes], ...] = (
    _flip, _flip, _odd_byte, _cut, _shorten, _repeat, _insert, _size, _size, _number, _number, _number,
)  # fmt: skip

_VALUES: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 7, 2**31, 2**63, 10**30, 1.5, 1e308, -0.0, "", "x", "self", "\x1b[31mX", "\ud800",
    "../../x", [], {}, [7], [[]], {"a": 1}, float("nan"), float("inf"),
)  # fmt: skip
_NUMBERS = (0, 1, -1, 2, 7, 255, 2**31, 2**62, 1e308, -1e30, float("nan"), float("inf"))
_TYPES = ("f8", "f4", "f2", "i8", "i4", "u4", "u1", "bool", "c16", ">f8", "U4")


def spoilt_json(content: bytes, chance: random.Random) -> bytes:
    """A JSON document with one or two values replaced, dropped or added; a quarter of them as `spoilt` leaves them."""
    if chance.random() < 0.25:
        return spoilt(content, chance)
    try:
        whole = json.loads(content)
    except ValueError:  # spoilt before
        return spoilt(content, chance)
    for _ in range(chance.randint(1, 2)):
        at = whole
        while isinstance(at, dict | list) and at:
            key = chance.choice([*at] if isinstance(at, dict) else range(len(at)))
            if isinstance(at[key], dict | list) and at[key] and chance.random() < 0.8:
                at = at[key]
                continue
            _change(at, key, chance)
            break
    return json.dumps(whole).encode("utf-8", "surrogatepass")


def _change(holder: Any, key: Any, chance: random.Random) -> None:
    """Replace one value, drop it, or put another one in before it."""
    match chance.randrange(6):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, list):
            holder.insert(key, deepcopy(chance.choice([*_VALUES, holder[key]])))  # which the next change may be in
        case 2 if type(holder[key]) is int:
            holder[key] += chance.choice((-1, 1, 1000))
        case _:
            holder[key] = deepcopy(chance.choice(_VALUES))


def spoilt_array(array: np.ndarray, chance: random.Random) -> np.ndarray:
    """An array of another size, shape or type, or with other numbers in it."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of complex numbers as real ones
        match chance.randrange(8):
            case 0:
                return array[: chance.randint(0, len(array))] if array.ndim else array[None]
            case 1:
                return np.concatenate([array, array[:1]]) if array.ndim else array
            case 2:
                return array[None] if chance.random() < 0.5 else array.reshape(-1)
            case 3:
                return array.T if array.ndim > 1 else array[::-1]
            case 4:
                return array.astype(chance.choice(_TYPES))
            case 5:
                return np.full(array.shape, chance.choice(_NUMBERS)).astype(array.dtype)
            case _ if array.size:
                changed = array.copy()
                changed.flat[chance.randrange(array.size)] = np.array(chance.choice(_NUMBERS)).astype(array.dtype)
                return changed
            case _:
                return np.zeros((1, *array.shape[1:]), array.dtype)
