"""Changes of a KV cache: no keys behind a window, the heaviest keys alone, keys and values rounded."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class KeyHead(NamedTuple):
    """One key/value head of a model.

    layer, head  the number of its block, and its own among the block's key heads, from 0
    stream       "self", or "encoder", "decoder", "cross" ...: the stack that the block is in
    """

    layer: int
    head: int
    stream: str = "self"


@dataclass(frozen=True)
class CacheFormat:
    """How the numbers of a KV cache are rounded, as an engine such as llama.cpp keeps them.

    bits    that a number takes, with its part of the scales
    block   how many numbers of a head share a scale, which must divide the size of a head; 1 where none is shared
    recent  how many last keys of a row are not yet rounded, at least
    words   which engine rounds so, and how
    """

    bits: float
    block: int
    recent: int
    words: str


_KIVI = (
    "KIVI: keys by channel in groups of 32 tokens, values by token in groups of 32 numbers, the last 32 tokens whole"
)

CACHE_FORMATS: Mapping[str, CacheFormat] = {
    "q8_0": CacheFormat(8.5, 32, 0, "GGUF: blocks of 32 with one scale"),
    "q5_1": CacheFormat(6.0, 32, 0, "GGUF: blocks of 32 with a scale and a least number"),
    "q5_0": CacheFormat(5.5, 32, 0, "GGUF: blocks of 32 with one scale"),
    "q4_1": CacheFormat(5.0, 32, 0, "GGUF: blocks of 32 with a scale and a least number"),
    "q4_0": CacheFormat(4.5, 32, 0, "GGUF: blocks of 32 with one scale"),
    "fp8_e4m3": CacheFormat(8.0, 1, 0, "8 bits: 4 of exponent, 3 of mantissa, the scale 1"),
    "fp8_e5m2": CacheFormat(8.0, 1, 0, "8 bits: 5 of exponent, 2 of mantissa, the scale 1"),
    "kivi4": CacheFormat(5.0, 32, 32, _KIVI),
    "kivi3": CacheFormat(4.0, 32, 32, _KIVI),
    "kivi2": CacheFormat(3.0, 32, 32, _KIVI),
}
WHOLE_BITS = 16.0
"""Bits of a number of a cache that is not rounded, whatever precision the model runs in here."""


@dataclass(frozen=True)
class CacheChange:
    """What is changed of the KV cache that one layer's attention reads: fewer keys, or rounded keys and values.

    key_heads  the numbers of the key heads, from 0, for which this holds; None for all of them
    window     how many of the last keys a row sees, its own among them; None for all
    first      how many of the first keys it sees besides, where there is a window
    top        how many keys each query head sees, those of the highest scores; None for all
    keys       how keys are rounded: a name of `CACHE_FORMATS`, such as "q8_0"; "" for not at all
    values     the same of values
    """

    layer: int
    stream: str = "self"
    key_heads: tuple[int, ...] | None = None
    window: int | None = None
    first: int = 0
    top: int | None = None
    keys: str = ""
    values: str = ""
