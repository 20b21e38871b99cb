"""Good files spoilt at random, the same way for the same seed: what a damaged download or a hostile hand may leave."""

import random
import re
from collections.abc import Callable

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
    places = [*re.finditer(rb"-?\d+", content[:4000])]
    if not places:
        return _flip(content, at, chance)
    place = chance.choice(places)
    return content[: place.start()] + chance.choice(_WILD) + content[place.end() :]


_MUTATIONS: tuple[Callable[[bytes, int, random.Random], bytes], ...] = (
    _flip, _flip, _odd_byte, _cut, _shorten, _repeat, _insert, _size, _size, _number, _number, _number,
)  # fmt: skip
