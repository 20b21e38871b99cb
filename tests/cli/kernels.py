"""Attention kernels written as people write them, in plain NumPy and torch, with one mistake each, or none."""

from collections.abc import Callable

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention

Arrays = dict[str, np.ndarray]


def arrays(seed: int, h: int = 4, n: int = 48, d: int = 16, g: int | None = None, m: int | None = None) -> Arrays:
    random = np.random.default_rng(seed)
    shapes = {"q": (h, n, d), "k": (g or h, m or n, d), "v": (g or h, m or n, d)}
    return {name: random.normal(size=shape) for name, shape in shapes.items()}


def soft(scores: np.ndarray, axis: int = -1) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        top = np.max(scores, axis=axis, keepdims=True)
        powers = np.exp(scores - np.where(np.isfinite(top), top, 0))
        total = powers.sum(axis=axis, keepdims=True)
    return powers / np.where(total > 0, total, 1)


def repeat(x: np.ndarray, h: int) -> np.ndarray:
    return np.repeat(x, h // len(x), axis=0)


def causal(n: int, m: int, offset: int = 0) -> np.ndarray:
    return np.arange(m)[None] <= np.arange(n)[:, None] + offset


def plain(a: Arrays, scale: float | None = None, mask: np.ndarray | None = None, k: np.ndarray | None = None,
          q: np.ndarray | None = None) -> np.ndarray:  # fmt: skip
    q = a["q"] if q is None else q
    keys, values = repeat(a["k"] if k is None else k, len(q)), repeat(a["v"], len(q))
    scores = q @ keys.swapaxes(1, 2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    allowed = causal(*scores.shape[1:]) if mask is None else mask
    return soft(np.where(allowed, scores, -np.inf)) @ values


def half(x: np.ndarray, dtype: torch.dtype = torch.bfloat16) -> np.ndarray:
    return torch.from_numpy(np.asarray(x, dtype=np.float32)).to(dtype).float().numpy().astype(np.float64)


def scores_of(a: Arrays) -> np.ndarray:
    return a["q"] @ repeat(a["k"], len(a["q"])).swapaxes(1, 2) * a["q"].shape[-1] ** -0.5


def weights_of(scores: np.ndarray) -> np.ndarray:
    return soft(np.where(causal(*scores.shape[1:]), scores, -np.inf))


def flash(a: Arrays, tile: int, *, rescale: str = "both", sums: Callable[[np.ndarray], np.ndarray] = np.asarray,
          last: bool = True) -> np.ndarray:  # fmt: skip
    """The loop of flash attention: a running maximum, a running sum, an accumulator."""
    q, k, v = a["q"], repeat(a["k"], len(a["q"])), repeat(a["v"], len(a["q"]))
    h, n, d = q.shape
    m = k.shape[1]
    top, total, acc = np.full((h, n, 1), -1e30), np.zeros((h, n, 1)), np.zeros((h, n, v.shape[-1]))
    stop = m if last else (m - 1) // tile * tile
    for start in range(0, stop, tile):
        s = q @ k[:, start : start + tile].swapaxes(1, 2) * d**-0.5
        allowed = causal(n, m)[:, start : start + tile]
        s = np.where(allowed, s, -1e30)
        new = np.maximum(top, s.max(axis=-1, keepdims=True))
        alpha, p = np.exp(top - new), np.where(allowed, np.exp(s - new), 0)
        total = sums(total * (alpha if rescale in ("both", "sum") else 1) + p.sum(axis=-1, keepdims=True))
        acc = sums(acc * (alpha if rescale in ("both", "acc") else 1) + p @ v[:, start : start + tile])
        top = new
    return acc / np.where(total > 0, total, 1)


def turned(x: np.ndarray, first: int = 0, base: float = 10000.0, sign: int = 1) -> np.ndarray:
    n, d = x.shape[-2:]
    angles = sign * np.arange(first, first + n)[:, None] * base ** (-np.arange(d // 2) * 2 / d)
    pairs = (x[..., : d // 2] + 1j * x[..., d // 2 :]) * np.exp(1j * angles)
    return np.concatenate((pairs.real, pairs.imag), axis=-1)


def reshaped(x: np.ndarray) -> np.ndarray:
    """The memory of [n, h, d] taken for [h, n, d]."""
    return np.ascontiguousarray(x.swapaxes(0, 1)).reshape(x.shape)


def zero_rows(output: np.ndarray, tile: int) -> np.ndarray:
    output = output.copy()
    output[:, (output.shape[1] - 1) // tile * tile :] = 0
    return output


Kernel = Callable[[Arrays], np.ndarray]


def sdpa(a: Arrays, dtype: torch.dtype) -> np.ndarray:
    q, k, v = (torch.from_numpy(a[x]).to(dtype)[None] for x in "qkv")
    out = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=len(a["q"]) != len(a["k"]))[0]
    return out.float().numpy() if dtype != torch.float64 else out.numpy()


def eager(a: Arrays, dtype: torch.dtype) -> np.ndarray:
    q, k, v = (
        torch.from_numpy(x).to(dtype) for x in (a["q"], repeat(a["k"], len(a["q"])), repeat(a["v"], len(a["q"])))
    )
    scores = q @ k.mT * q.shape[-1] ** -0.5
    scores = scores.masked_fill(~torch.from_numpy(causal(*scores.shape[1:])), torch.finfo(dtype).min)
    return (torch.softmax(scores.float(), -1).to(dtype) @ v).double().numpy()


def tf32(x: np.ndarray) -> np.ndarray:
    bits = np.asarray(x, dtype=np.float32).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)


def in_tf32(a: Arrays) -> np.ndarray:
    q, k, v = tf32(a["q"]), tf32(repeat(a["k"], len(a["q"]))), tf32(repeat(a["v"], len(a["q"])))
    scores = np.where(causal(q.shape[1], k.shape[1]), q @ k.swapaxes(1, 2) * q.shape[-1] ** -0.5, -np.inf)
    return tf32(soft(scores)) @ v


INNOCENT: dict[str, Kernel] = {
    "sdpa float64": lambda a: sdpa(a, torch.float64),
    "sdpa float32": lambda a: sdpa(a, torch.float32),
    "sdpa bfloat16": lambda a: sdpa(a, torch.bfloat16),
    "sdpa float16": lambda a: sdpa(a, torch.float16),
    "eager bfloat16": lambda a: eager(a, torch.bfloat16),
    "eager float16": lambda a: eager(a, torch.float16),
    "flash order 16": lambda a: flash(a, 16),
    "flash order 64": lambda a: flash(a, 64),
    "tf32": in_tf32,
    "weights in bfloat16": lambda a: half(weights_of(scores_of(a))) @ repeat(a["v"], len(a["q"])),
    "scores in bfloat16": lambda a: weights_of(half(scores_of(a))) @ repeat(a["v"], len(a["q"])),
    "inputs in bfloat16": lambda a: plain({x: half(a[x]) for x in "qkv"}),
    "inputs in float16": lambda a: plain({x: half(a[x], torch.float16) for x in "qkv"}),
    "output in bfloat16": lambda a: half(plain(a)),
}  # fmt: skip
