"""Keys and values rounded as inference engines round them in their caches.

Floats of 8 bits; KIVI's groups of 32 numbers (Liu et al. 2024, section 3): a least number and a scale in float16, and
whole numbers, of keys along tokens, each channel by itself, since few channels hold the large numbers, of values along
channels; GGUF's blocks of 32 numbers: a float16 scale, for q4_1 and q5_1 a float16 least number, and whole numbers,
rounded and given back as `quantize_row_q*_ref` and `dequantize_row_q*` of ggml-quants.c do, and gguf.quants in Python.
"""

import torch

from attn_cli.errors import InputError
from attn_cli.model.kv_cache import CACHE_FORMATS

_FLOATS = {"fp8_e4m3": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2}
_GROUP = 32  # of KIVI
_BLOCK = 32  # of GGUF
_LEVELS = {"q4_0": 16, "q5_0": 32, "q4_1": 16, "q5_1": 32}


def rounded_keys(keys: torch.Tensor, format: str) -> torch.Tensor:
    """Keys `[g, m, d]` of g heads as a KV cache of a format, such as "q4_0" or "kivi2", gives them back, in float32.

    Raises InputError where the format's blocks don't divide the size d of a head.
    """
    return by_channel(keys.float(), int(format[-1])) if format.startswith("kivi") else _of_tokens(keys, format)


def rounded_values(values: torch.Tensor, format: str) -> torch.Tensor:
    """Values `[g, m, e]` of g heads as a KV cache of a format, such as "q4_0" or "kivi2", gives them back, in float32.

    Raises InputError where the format's blocks don't divide the size e of a head.
    """
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


def of_float8(numbers: torch.Tensor, format: str) -> torch.Tensor:
    """Float32 numbers of any shape rounded to 8-bit floats, "fp8_e4m3" or "fp8_e5m2", unscaled, and back to float32.

    Numbers beyond the largest 8-bit float become that one, as inference engines saturate.
    """
    dtype = _FLOATS[format]
    largest = torch.finfo(dtype).max
    return numbers.clamp(-largest, largest).to(dtype).float()


def by_channel(keys: torch.Tensor, bits: int) -> torch.Tensor:
    """Keys `[g, m, d]` of g heads rounded to 2**bits steps in each column of groups of 32 tokens, as KIVI does.

    The last tokens, too few for a group, are kept whole.
    """
    settled = keys.shape[1] // _GROUP * _GROUP
    groups = keys[:, :settled].reshape(len(keys), -1, _GROUP, keys.shape[-1])  # [g, groups, 32, d]
    return torch.cat([_in_groups(groups, bits, 2).flatten(1, 2), keys[:, settled:]], dim=1)


def by_token(values: torch.Tensor, bits: int) -> torch.Tensor:
    """Values `[g, m, e]` of g heads rounded to 2**bits steps in groups of 32 numbers of a token, as KIVI does."""
    return _in_groups(values.reshape(*values.shape[:-1], -1, _GROUP), bits, -1).flatten(-2)


def _in_groups(groups: torch.Tensor, bits: int, axis: int) -> torch.Tensor:
    """Numbers rounded to 2 ** bits levels from the least to the greatest along an axis; halves go to the even level."""
    highest = 2**bits - 1
    least = groups.amin(axis, keepdim=True).half().float()
    scale = ((groups.amax(axis, keepdim=True) - least) / highest).half().float()
    steps = torch.where(scale == 0, 0.0, (groups - least) / scale).clamp(0, highest).round()
    return steps * scale + least


def of_blocks(numbers: torch.Tensor, format: str) -> torch.Tensor:
    """Float32 numbers `[..., a multiple of 32]` rounded in one of GGUF's formats, such as "q4_0"; same shape."""
    blocks = numbers.reshape(*numbers.shape[:-1], -1, _BLOCK)
    if format == "q8_0":
        given_back = _with_127_levels(blocks)
    elif format.endswith("_0"):
        given_back = _from_scale(blocks, _LEVELS[format])
    else:
        given_back = _from_least(blocks, _LEVELS[format])
    return given_back.flatten(-2)


def _with_127_levels(blocks: torch.Tensor) -> torch.Tensor:
    """The largest number becomes 127 or -127; halves are rounded away from 0."""
    scale = blocks.abs().amax(-1, keepdim=True) / 127
    steps = blocks * _inverse(scale)
    size = steps.abs()
    floor = size.floor()
    # + 0.0: a whole number has no negative zero
    return _half(scale) * (steps.sign() * (floor + (2 * (size - floor)).floor()) + 0.0)


def _from_scale(blocks: torch.Tensor, levels: int) -> torch.Tensor:
    """The number that is largest by size becomes the lowest level, whatever its sign: the scale may be negative."""
    largest = blocks.gather(-1, blocks.abs().argmax(-1, keepdim=True))
    scale = largest / -(levels // 2)
    steps = (blocks * _inverse(scale) + (levels / 2 + 0.5)).trunc().clamp(0, levels - 1)
    return _half(scale) * (steps - levels // 2)


def _from_least(blocks: torch.Tensor, levels: int) -> torch.Tensor:
    """The least number becomes level 0, the greatest the highest level."""
    least, greatest = blocks.amin(-1, keepdim=True), blocks.amax(-1, keepdim=True)
    scale = (greatest - least) / (levels - 1)
    steps = ((blocks - least) * _inverse(scale) + 0.5).trunc().clamp(0, levels - 1)
    return _half(scale) * steps + _half(least)


def _inverse(scale: torch.Tensor) -> torch.Tensor:
    """1 / scale; 0 for a scale of 0, that of a block of zeros or equal numbers."""
    return torch.where(scale == 0, 0.0, 1 / scale)


def _half(numbers: torch.Tensor) -> torch.Tensor:
    """Numbers as float16 keeps them."""
    return numbers.half().float()
