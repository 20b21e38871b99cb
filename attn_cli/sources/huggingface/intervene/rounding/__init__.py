"""Keys and values rounded as inference engines round them in their caches."""

import torch

from attn_cli.errors import InputError
from attn_cli.model.kv_cache import CACHE_FORMATS
from attn_cli.sources.huggingface.intervene.rounding.blocks import of_blocks
from attn_cli.sources.huggingface.intervene.rounding.floats import of_float8
from attn_cli.sources.huggingface.intervene.rounding.groups import by_channel, by_token


def rounded_keys(keys: torch.Tensor, format: str) -> torch.Tensor:
    """Keys `[g, m, d]` as a cache of this format gives them back, in float32.

    Raises InputError where the format's blocks don't divide a head.
    """
    return by_channel(keys.float(), int(format[-1])) if format.startswith("kivi") else _of_tokens(keys, format)


def rounded_values(values: torch.Tensor, format: str) -> torch.Tensor:
    """Values `[g, m, e]` as a cache of this format gives them back, in float32; errors as for keys."""
    _check(values.shape[-1], format)
    return by_token(values.float(), int(format[-1])) if format.startswith("kivi") else _of_tokens(values, format)


def _of_tokens(numbers: torch.Tensor, format: str) -> torch.Tensor:
    _check(numbers.shape[-1], format)
    numbers = numbers.float()
    return of_float8(numbers, format) if format.startswith("fp8") else of_blocks(numbers, format)


def _check(size: int, format: str) -> None:
    block = CACHE_FORMATS[format].block
    if size % block:
        raise InputError(
            f"{format} rounds blocks of {block} numbers, and heads of {size} hold no whole number of them",
            "fp8_e4m3 and fp8_e5m2 round every number by itself",
        )
