"""`nn.Linear` by oneDNN on processors with AVX-512 that aren't Intel's, where MKL uses vectors of 256 bits.

torch gives float32 products to MKL. oneDNN, which torch carries too, takes about 0.45 of MKL's time there (measured on
a Zen 5), and with it a whole forward pass about 0.6. Both sum in float32, each in an order of its own: a pass differs
by rounding, as it does between two processors.

oneDNN compiles a kernel for every number of rows that it meets, in some milliseconds and half a megabyte. Rows are
therefore multiplied in pieces of few sizes, so that a thousand texts of unlike lengths need no more than these. Rows
that come in few sizes themselves, as those of texts side by side, are multiplied at once: a tenth quicker, as nothing
is put together.
"""

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

_PIECE = 512  # rows, whose products stay near the core; what is left has a multiple of 32, or of 8 where it is under 64
_MOST_AT_ONCE, _MULTIPLE = 4096, 128  # rows that are multiplied at once: up to so many, if a multiple of the other
_FEWEST_ROWS = 8  # for fewer MKL is as quick
_FEWEST_PRODUCTS = 2**22  # rows times numbers of the weight: less doesn't earn the compiling of a kernel


@contextmanager
def onednn_linear() -> Iterator[None]:
    """Context manager: `functional.linear` and `torch.addmm` multiply by oneDNN what it is quicker for."""
    plain_linear, plain_addmm = functional.linear, torch.addmm
    if plain_linear is not torch._C._nn.linear or not onednn_is_wider():
        yield
        return

    def linear(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        return product(input, weight, bias) if suits(input, weight, bias) else plain_linear(input, weight, bias)

    def addmm(*arguments: Any, **others: Any) -> torch.Tensor:
        if len(arguments) == 3 and not others:
            bias, x, columns = arguments  # as GPT-2's layers keep their weight: [k, c]
            if bias.ndim == 1 and suits(x, columns.t(), bias):
                return product(x, columns.t(), bias)
        return plain_addmm(*arguments, **others)

    functional.linear, torch.addmm = linear, addmm
    try:
        yield
    finally:
        functional.linear, torch.addmm = plain_linear, plain_addmm


@cache
def onednn_is_wider() -> bool:
    """True if this processor has vectors that oneDNN uses and MKL doesn't, and this torch can call oneDNN."""
    if made_by_intel() or not torch.backends.cpu.get_cpu_capability().startswith("AVX512"):
        return False
    return multiplies()


def made_by_intel() -> bool:
    """True if this processor is Intel's."""
    try:
        return "GenuineIntel" in Path("/proc/cpuinfo").read_text()
    except OSError:  # not Linux
        return "Intel" in platform.processor()


def multiplies() -> bool:
    """True if this torch can multiply by oneDNN, through an operator meant for torch's compiler, which may change."""
    try:
        return bool(product(torch.ones(1, 2), torch.ones(1, 2), None).item() == 2)
    except (AttributeError, RuntimeError, TypeError):
        return False


def suits(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> bool:
    """True where oneDNN takes x `[..., k]` times weight `[c, k]`, and may be quicker than MKL: from 8 rows on."""
    return (
        type(x) is torch.Tensor
        and type(weight) in (torch.Tensor, nn.Parameter)
        and x.dtype == weight.dtype == torch.float32
        and x.device.type == weight.device.type == "cpu"
        and weight.ndim == 2
        and x.numel() >= _FEWEST_ROWS * weight.shape[1]
        and x.numel() * weight.shape[0] >= _FEWEST_PRODUCTS
        and (weight.is_contiguous() or weight.t().is_contiguous())  # for others it has slow loops
        and (bias is None or (bias.dtype == torch.float32 and bias.shape == weight.shape[:1]))
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
    )


def product(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """x `[..., k]` times the transpose of weight `[c, k]`, plus bias `[c]`, by oneDNN: `[..., c]`.

    >>> product(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]]), torch.tensor([5.0]))
    tensor([[16.]])
    """
    onednn = torch.ops.mkldnn._linear_pointwise.default  # x, weight, bias, and no activation
    flat = x.reshape(-1, x.shape[-1])
    rows = flat.shape[0]
    sections = pieces(rows)
    if len(sections) == 1:
        missing = sections[0][1] - rows
        whole = functional.pad(flat, (0, 0, 0, missing)) if missing else flat
        out: torch.Tensor = onednn(whole, weight, bias, "none", [], "")[:rows]
    else:
        out = flat.new_empty(rows, weight.shape[0])
        for start, stop in sections:
            out[start:stop] = onednn(flat[start:stop], weight, bias, "none", [], "")
    return out.view(*x.shape[:-1], weight.shape[0])


@cache
def pieces(rows: int) -> list[tuple[int, int]]:
    """Sections `start:stop` that cover so many rows, of few sizes; one for a multiple of 128 rows, up to 4,096.

    >>> pieces(1100)
    [(0, 512), (512, 1024), (1004, 1100)]
    >>> pieces(100)
    [(0, 128)]
    """
    if rows <= _MOST_AT_ONCE and rows % _MULTIPLE == 0:
        return [(0, rows)]
    start = rows // _PIECE * _PIECE
    sections = [(first, first + _PIECE) for first in range(0, start, _PIECE)]
    if rest := rows - start:
        step = 8 if rest < 64 else 32
        size = -(-rest // step) * step
        first = max(rows - size, 0)
        sections.append((first, first + size))
    return sections
