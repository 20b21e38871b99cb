"""Stand-ins for packages of fused kernels, which run on graphics cards: their signatures, computed cell by cell."""

# ruff: noqa: PLR0913 (the packages' own signatures)

import math
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
import torch

from attn_cli.sources.huggingface.compat import hidden_from_function_modes


def allowed(i: int, j: int, shift: int, causal: bool, window: tuple[int, int]) -> bool:
    """Whether query i may attend to key j, whose place is counted from the query that stands at key i + shift."""
    left, right = window
    if causal:
        right = 0
    return (left < 0 or j >= i + shift - left) and (right < 0 or j <= i + shift + right)


def of_text(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None, causal: bool = False,
    window: tuple[int, int] = (-1, -1), softcap: float = 0.0, slopes: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Weights `[h, n, m]` and output `[n, h, e]` of one text: q `[n, h, d]`, k `[m, g, d]`, v `[m, g, e]`."""
    (n, h, d), m, shared = q.shape, k.shape[0], q.shape[1] // k.shape[1]
    shift = m - n
    weights, output = torch.zeros(h, n, m), torch.zeros(n, h, v.shape[2])
    for head in range(h):
        for i in range(n):
            scores = torch.full((m,), -math.inf)
            for j in range(m):
                if allowed(i, j, shift, causal, window):
                    score = float(q[i, head] @ k[j, head // shared]) * (d**-0.5 if scale is None else scale)
                    score = softcap * math.tanh(score / softcap) if softcap else score
                    scores[j] = score - (0.0 if slopes is None else float(slopes[head]) * abs(i + shift - j))
            weights[head, i] = scores.softmax(-1).nan_to_num(0.0)
            output[i, head] = weights[head, i] @ v[:, head // shared]
    return weights, output.to(q.dtype)


def flash_attn_func(
    q: Any, k: Any, v: Any, dropout_p: float = 0.0, softmax_scale: Any = None, causal: bool = False,
    window_size: Any = (-1, -1), softcap: float = 0.0, alibi_slopes: Any = None, deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:  # fmt: skip
    with hidden_from_function_modes():  # as a kernel, which shows nothing to torch
        outputs = [
            of_text(*text, softmax_scale, causal, window_size, softcap,
                    alibi_slopes[at] if alibi_slopes is not None and alibi_slopes.ndim == 2 else alibi_slopes)[1]
            for at, text in enumerate(zip(q, k, v, strict=True))
        ]  # fmt: skip
        output = torch.stack(outputs)
    return (output, torch.zeros(q.shape[0], q.shape[2], q.shape[1]), None) if return_attn_probs else output


def flash_attn_qkvpacked_func(
    qkv: Any, dropout_p: float = 0.0, softmax_scale: Any = None, causal: bool = False, window_size: Any = (-1, -1),
    softcap: float = 0.0, alibi_slopes: Any = None, deterministic: bool = False, return_attn_probs: bool = False,
) -> Any:  # fmt: skip
    return flash_attn_func(*qkv.unbind(2), dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes)


def flash_attn_kvpacked_func(
    q: Any, kv: Any, dropout_p: float = 0.0, softmax_scale: Any = None, causal: bool = False,
    window_size: Any = (-1, -1), softcap: float = 0.0, alibi_slopes: Any = None, deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:  # fmt: skip
    return flash_attn_func(q, *kv.unbind(2), dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes)


def flash_attn_varlen_func(
    q: Any, k: Any, v: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, max_seqlen_q: int, max_seqlen_k: int,
    dropout_p: float = 0.0, softmax_scale: Any = None, causal: bool = False, window_size: Any = (-1, -1),
    softcap: float = 0.0, alibi_slopes: Any = None, deterministic: bool = False, return_attn_probs: bool = False,
    block_table: Any = None,
) -> Any:  # fmt: skip
    with hidden_from_function_modes():
        outputs = []
        for at in range(len(cu_seqlens_q) - 1):
            rows, keys = slice(*cu_seqlens_q[at : at + 2].tolist()), slice(*cu_seqlens_k[at : at + 2].tolist())
            text = q[rows], k[keys], v[keys]
            outputs.append(of_text(*text, softmax_scale, causal, window_size, softcap, alibi_slopes)[1])
        return torch.cat(outputs)


def flash_attn_varlen_qkvpacked_func(
    qkv: Any, cu_seqlens: Any, max_seqlen: int, dropout_p: float = 0.0, softmax_scale: Any = None,
    causal: bool = False, window_size: Any = (-1, -1), softcap: float = 0.0, alibi_slopes: Any = None,
    deterministic: bool = False, return_attn_probs: bool = False,
) -> Any:  # fmt: skip
    return flash_attn_varlen_func(*qkv.unbind(1), cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, dropout_p,
                                  softmax_scale, causal, window_size, softcap, alibi_slopes)  # fmt: skip


def flash_attn_with_kvcache(
    q: Any, k_cache: Any, v_cache: Any, k: Any = None, v: Any = None, rotary_cos: Any = None, rotary_sin: Any = None,
    cache_seqlens: Any = None, cache_batch_idx: Any = None, cache_leftpad: Any = None, block_table: Any = None,
    softmax_scale: Any = None, causal: bool = False, window_size: Any = (-1, -1), softcap: float = 0.0,
    rotary_interleaved: bool = True, alibi_slopes: Any = None, num_splits: int = 0, return_softmax_lse: bool = False,
) -> Any:  # fmt: skip
    with hidden_from_function_modes():
        outputs = []
        for at in range(len(q)):
            slot = at if cache_batch_idx is None else int(cache_batch_idx[at])
            stop = cache_seqlens if isinstance(cache_seqlens, int) else int(cache_seqlens[at])
            if k is not None:
                k_cache[slot, stop : stop + k.shape[1]], v_cache[slot, stop : stop + k.shape[1]] = k[at], v[at]
                stop += k.shape[1]
            text = q[at], k_cache[slot, :stop], v_cache[slot, :stop]
            outputs.append(of_text(*text, softmax_scale, causal, window_size, softcap, alibi_slopes)[1])
        return torch.stack(outputs)


class LowerTriangularMask:
    """Query i sees keys 0 .. i; `add` is added, if there is something."""

    add: torch.Tensor | None = None

    def materialize(self, shape: Any, dtype: Any = torch.float32, device: Any = "cpu") -> torch.Tensor:
        mask = torch.full(tuple(shape), -math.inf, dtype=dtype, device=device).triu(1)
        return mask if self.add is None else mask + self.add


class LowerTriangularMaskWithTensorBias(LowerTriangularMask):
    def __init__(self, add: torch.Tensor) -> None:
        self.add = add


class LowerTriangularFromBottomRightMask:
    def materialize(self, shape: Any, dtype: Any = torch.float32, device: Any = "cpu") -> torch.Tensor:
        return torch.full(tuple(shape), -math.inf, dtype=dtype, device=device).triu(1 + shape[-1] - shape[-2])


@dataclass
class _SeqLenInfo:
    seqstart_py: list[int]


class _PaddedSeqLenInfo(_SeqLenInfo):
    pass


class BlockDiagonalMask:
    """Texts one after the other, each of which sees its own keys; `block` makes the mask of one."""

    def __init__(self, rows: list[int], keys: list[int], kind: Any = _SeqLenInfo) -> None:
        self.q_seqinfo, self.k_seqinfo = _SeqLenInfo(rows), kind(keys)

    def block(self, n: int, m: int) -> torch.Tensor:
        return torch.zeros(n, m)

    def materialize(self, shape: Any, dtype: Any = torch.float32, device: Any = "cpu") -> torch.Tensor:
        rows, keys = self.q_seqinfo.seqstart_py, self.k_seqinfo.seqstart_py
        mask = torch.full(tuple(shape[-2:]), -math.inf)
        for start, stop, first, last in zip(rows, rows[1:], keys, keys[1:], strict=False):
            mask[start:stop, first:last] = self.block(stop - start, last - first)
        return mask.to(dtype=dtype, device=device).expand(tuple(shape))


class BlockDiagonalCausalMask(BlockDiagonalMask):
    def block(self, n: int, m: int) -> torch.Tensor:
        return torch.full((n, m), -math.inf).triu(1)


class BlockDiagonalCausalFromBottomRightMask(BlockDiagonalMask):
    def block(self, n: int, m: int) -> torch.Tensor:
        return torch.full((n, m), -math.inf).triu(1 + m - n)


class BlockDiagonalCausalLocalAttentionMask(BlockDiagonalMask):
    """With a window of two keys."""

    def block(self, n: int, m: int) -> torch.Tensor:
        window = torch.ones(n, m).tril().triu(-1).bool()
        return torch.zeros(n, m).masked_fill(~window, -math.inf)


def memory_efficient_attention(
    query: Any, key: Any, value: Any, attn_bias: Any = None, p: float = 0.0, scale: Any = None, *, op: Any = None,
    output_dtype: Any = None,
) -> Any:  # fmt: skip
    with hidden_from_function_modes():
        grouped = query.ndim == 5
        q, k, v = (x.flatten(2, 3) if grouped else x for x in (query, key, value))
        scores = torch.einsum("bihd,bjhd->bhij", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
        if attn_bias is not None:
            bias = attn_bias if isinstance(attn_bias, torch.Tensor) else attn_bias.materialize(scores.shape)
            scores = scores + bias.reshape(bias.shape[0], -1, *bias.shape[-2:])
        return torch.einsum("bhij,bjhe->bihe", scores.softmax(-1), v).reshape(*query.shape[:-1], -1)


def packaged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the stand-ins where packages of these names would be."""
    here = sys.modules[__name__]
    for package, start in (("flash_attn", "flash_attn"), ("xformers", ""), ("xformers.ops", "memory_efficient")):
        module = ModuleType(package)
        for name in vars(here):
            if start and name.startswith(start):
                setattr(module, name, getattr(here, name))
        monkeypatch.setitem(sys.modules, package, module)
