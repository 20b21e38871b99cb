"""A decoder in plain NumPy, as somebody would port it: no code of attn, torch or transformers; mistakes on purpose.

Everything is kept by the names that Hugging Face's modules have.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from math import erf, sqrt
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
_erf = np.vectorize(erf, otypes=[np.float64])


@dataclass(frozen=True)
class Settings:
    """What the port knows of a model."""

    layers: int
    heads: int
    groups: int
    width: int  # of a head
    eps: float
    frequencies: np.ndarray | None = None
    factor: float = 1.0  # on cos and sin
    interleaved: bool = False
    norm: str = "rms"
    plus_one: bool = False
    scale: float = 0.0  # 0: of the head's width
    windows: tuple[int, ...] = ()  # of each layer, 0 for none
    causal: bool = True
    softcap: float = 0.0
    logit_softcap: float = 0.0
    embedding_scale: float = 1.0
    activation: str = "silu"
    parallel: bool = False
    after_norms: bool = False  # Gemma 2: norms behind attention and MLP, too
    qk_norm: bool = False
    experts: int = 0  # chosen for each token
    precision: str = "float32"
    wrong: frozenset[str] = field(default_factory=frozenset)


def planted(settings: Settings, *wrong: str) -> Settings:
    """The settings with mistakes."""
    return replace(settings, wrong=frozenset(wrong))


def rounded(x: np.ndarray, precision: str) -> np.ndarray:
    """Numbers of float32 as the precision has them, half to even."""
    x = np.asarray(x, np.float32)
    if precision == "bfloat16":
        bits = x.view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    return x


def four_bits(x: np.ndarray) -> np.ndarray:
    """A matrix in blocks of 32 numbers with a scale of 16 bits, by the largest of them, as GGUF's q4_0."""
    if x.ndim < 2 or x.shape[-1] % 32:
        return x
    blocks = x.reshape(-1, 32)
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(1)[:, None], 1)
    step = (largest / -8).astype(np.float16).astype(np.float32)
    safe = np.where(step == 0, 1, step)
    return ((np.clip(np.floor(blocks / safe + 8.5), 0, 15) - 8) * step).reshape(x.shape)


class Port:
    """One pass of the port over ids; `seen` has what it dumps.

    weights  by the names of `canonical`: embed, L.norm1.w, L.q.w `[out, in]`, L.q.b, and so on
    """

    def __init__(self, weights: Arrays, settings: Settings) -> None:
        s = settings
        self.s, self.seen = s, {}  # type: ignore[var-annotated]
        make: Callable[[np.ndarray], np.ndarray] = (
            four_bits if s.precision == "4-bit" else lambda x: rounded(x, s.precision)
        )
        self.w = {name: make(np.asarray(x, np.float32)) for name, x in weights.items()}

    def has(self, mistake: str, layer: int = -1) -> bool:
        """True if the mistake is made, everywhere or in that layer (`name@3`)."""
        return mistake in self.s.wrong or f"{mistake}@{layer}" in self.s.wrong

    def r(self, x: np.ndarray) -> np.ndarray:
        """Rounded to the port's precision."""
        return rounded(x, self.s.precision)

    def keep(self, name: str, x: np.ndarray) -> np.ndarray:
        """Dump numbers."""
        self.seen[name] = np.array(x, np.float32)
        return x

    def run(self, ids: Iterable[int]) -> Arrays:
        """The whole pass."""
        s = self.s
        ids = np.asarray(list(ids))
        x = self.w["embed"][np.append(ids[0], ids[:-1]) if self.has("tokens+1") else ids]
        if not self.has("embedding-scale-missing"):
            x = x * np.float32(s.embedding_scale)
        if "positions" in self.w:
            x = x + self.w["positions"][np.arange(len(ids)) + self.has("positions+1")]
        if "embed_norm.w" in self.w:
            x = self.norm(x, "embed_norm")
        x = self.keep("0.residual_in", self.r(x))
        for layer in range(s.layers):
            x = self.layer(x, layer)
        if "final.w" in self.w and not self.has("final-norm-missing"):
            x = self.keep("final_norm", self.norm(x, "final"))
        head = self.w["embed"] if self.has("head-tied") else self.w.get("head.w", self.w["embed"])
        logits = x @ head.T
        if self.has("logits-centred"):
            logits = logits - logits.mean(-1, keepdims=True)
        if s.logit_softcap and not self.has("logit-softcap-missing"):
            logits = np.tanh(logits / s.logit_softcap) * s.logit_softcap
        self.keep("logits", self.r(logits))
        return self.seen

    def layer(self, x: np.ndarray, layer: int) -> np.ndarray:
        """One layer."""
        s, name = self.s, f"{layer}"
        second = f"{layer}.norm2" if f"{layer}.norm2.w" in self.w else f"{layer}.norm1"
        if self.has("norms-behind"):
            middle = self.norm(self.r(x + self.attention(x, layer)), f"{layer}.norm1")
            return self.keep(f"{name}.residual", self.norm(self.r(middle + self.mlp(middle, layer)), second))
        first = self.keep(f"{name}.normed", self.norm(x, f"{layer}.norm1"))
        attended = self.attention(first, layer)
        if s.after_norms and not self.has("after-norm-missing"):
            attended = self.norm(attended, f"{layer}.after1")
        middle = x if s.parallel else self.r(x + attended)
        made = self.mlp(self.norm(middle, second), layer)
        if s.after_norms:
            made = self.norm(made, f"{layer}.after2")
        if self.has("outside: residual shrinks"):
            middle = middle * np.float32(0.6)
        out = self.r(middle + attended + made) if s.parallel else self.r(middle + made)
        return self.keep(f"{name}.residual", out)

    def norm(self, x: np.ndarray, name: str) -> np.ndarray:
        """RMS norm or layer norm over the last axis."""
        s = self.s
        eps = 1e-2 if self.has("norm-eps") else s.eps
        kind = {"rms": "layer", "layer": "rms"}[s.norm] if self.has("norm-kind") else s.norm
        gain = self.w[f"{name}.w"] + (1 if s.plus_one and not self.has("norm-plus-one-missing") else 0)
        wide = x.astype(np.float32)
        if kind == "layer":
            wide = wide - wide.mean(-1, keepdims=True)
        made = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + np.float32(eps)) * gain
        bias = self.w.get(f"{name}.b")
        return self.r(made if bias is None else made + bias)

    def linear(self, x: np.ndarray, name: str) -> np.ndarray:
        """x Wᵀ + b."""
        made = x @ self.w[f"{name}.w"].T
        bias = None if self.has("biases-missing") else self.w.get(f"{name}.b")
        return self.r(made if bias is None else made + bias)

    def attention(self, x: np.ndarray, layer: int) -> np.ndarray:
        """All heads, and W_O."""
        s, name = self.s, f"{layer}"
        n = len(x)
        names = ["q", "k", "v"]
        if self.has("qkv-order"):
            names = ["q", "v", "k"]
        q = self.linear(x, f"{layer}.{names[0]}").reshape(n, s.heads, s.width)
        k = self.linear(x, f"{layer}.{names[1]}").reshape(n, s.groups, s.width)
        v = self.keep(f"{name}.v", self.linear(x, f"{layer}.{names[2]}").reshape(n, s.groups, s.width))
        if self.has("outside: a head of v is doubled"):
            v = v * np.where(np.arange(s.groups) == s.groups - 1, 2, 1)[None, :, None].astype(np.float32)
        later = self.has("qk-norm-after-rotary")
        if s.qk_norm and not self.has("qk-norm-missing") and not later:
            q, k = self.norm(q, f"{layer}.q_norm"), self.norm(k, f"{layer}.k_norm")
        if s.frequencies is not None:
            q, k = self.r(self.turn(q)), self.r(self.turn(k))
        if s.qk_norm and later:
            q, k = self.norm(q, f"{layer}.q_norm"), self.norm(k, f"{layer}.k_norm")
        if self.has("outside: a query head is negated"):
            q = q * np.where(np.arange(s.heads) == 1, -1, 1)[None, :, None].astype(np.float32)
        if s.frequencies is not None:
            q, k = self.keep(f"{name}.q_rotated", q), self.keep(f"{name}.k_rotated", k)
        scale = s.scale or s.width**-0.5
        if self.has("scale-missing", layer):
            scale = 1.0
        if self.has("scale-of-width", layer):
            scale = (s.heads * s.width) ** -0.5
        if self.has("scale-twice", layer):
            scale *= scale
        of = np.arange(s.heads) * s.groups // s.heads
        if self.has("groups-tiled"):
            of = np.arange(s.heads) % s.groups
        scores = np.einsum("qhd,khd->hqk", q, k[:, of]) * np.float32(scale)
        if s.softcap and not self.has("softcap-missing"):
            scores = np.tanh(scores / s.softcap) * s.softcap
        if self.has("softcap-uninvited"):
            scores = np.tanh(scores / 50) * 50
        scores = np.where(self.allowed(n, layer), scores, -np.inf)
        scores = scores - scores.max(-1, keepdims=True)
        if self.has("outside: every third key is not seen"):
            scores = np.where((np.arange(n) % 3 == 2) & (np.arange(n)[:, None] > np.arange(n)), -np.inf, scores)
        weights = np.exp(scores)
        weights = self.r(weights / weights.sum(-1, keepdims=True))
        heads = self.r(np.einsum("hqk,khd->qhd", weights, v[:, of]))
        if self.has("heads-joined-by-reshape"):
            heads = heads.swapaxes(0, 1).reshape(n, s.heads, s.width)
        self.keep(f"{name}.heads", heads)
        return self.keep(f"{name}.attention", self.linear(heads.reshape(n, -1), f"{layer}.o"))

    def allowed(self, n: int, layer: int) -> np.ndarray:
        """Which keys each query sees."""
        s = self.s
        i, j = np.arange(n)[:, None], np.arange(n)[None]
        seen = np.ones((n, n), bool)
        if s.causal and not self.has("mask-missing"):
            seen &= j <= i
        if self.has("causal-blocks-diagonal"):
            seen &= (j < i) | (i == 0)
        window = s.windows[layer] if s.windows else 0
        if self.has("window-of-other-layers"):
            window = max(s.windows)
        if window and not self.has("window-missing"):
            window += self.has("window-wide") - self.has("window-narrow")
            seen &= i - j < window
        return seen

    def turn(self, x: np.ndarray) -> np.ndarray:
        """Rotary positions of `[n, heads, width]`."""
        s = self.s
        assert s.frequencies is not None
        frequencies = s.frequencies
        if self.has("rotary-missing"):
            return x
        if self.has("rotary-base"):
            frequencies = 500_000.0 ** (-np.arange(len(frequencies)) / len(frequencies))
        positions = np.arange(len(x)) + (1 if self.has("rotary-positions+1") else 0)
        angles = positions[:, None] * frequencies[None]
        cos, sin = (np.float32(s.factor) * f(angles).astype(np.float32)[:, None] for f in (np.cos, np.sin))
        if self.has("rotary-backwards"):
            sin = -sin
        half = len(frequencies)
        made = x.copy()
        if s.interleaved != self.has("rotary-pairs"):
            one, other = x[..., : 2 * half : 2], x[..., 1 : 2 * half : 2]
            made[..., : 2 * half : 2], made[..., 1 : 2 * half : 2] = one * cos - other * sin, one * sin + other * cos
        else:
            one, other = x[..., :half], x[..., half : 2 * half]
            made[..., :half], made[..., half : 2 * half] = one * cos - other * sin, one * sin + other * cos
        return made

    def mlp(self, x: np.ndarray, layer: int) -> np.ndarray:
        """Gated where there is a gate."""
        x = self.keep(f"{layer}.mlp_normed", x)
        if f"{layer}.router.w" in self.w:
            return self.keep(f"{layer}.mlp", self.routed(x, layer))
        gate, up = (f"{layer}.gate", f"{layer}.up")
        if self.has("gate-up-swapped"):
            gate, up = up, gate
        if f"{layer}.gate.w" in self.w:
            inner = self.r(self.active(self.linear(x, gate)) * self.linear(x, up))
        else:
            inner = self.r(self.active(self.linear(x, up)))
        if self.has("outside: activations are clipped"):
            inner = np.clip(inner, -0.3, 0.3)
        return self.keep(f"{layer}.mlp", self.linear(inner, f"{layer}.down"))

    def routed(self, x: np.ndarray, layer: int) -> np.ndarray:
        """The experts with the highest scores of each token, mixed by the softmax over these."""
        s = self.s
        scores = self.linear(x, f"{layer}.router")
        chosen = np.argsort(-scores, axis=-1, kind="stable")[:, : s.experts]  # [n, k]
        of = np.exp(scores - scores.max(-1, keepdims=True))
        picked = np.take_along_axis(of, chosen, -1)
        weights = picked / (of if self.has("experts-not-normalised") else picked).sum(-1, keepdims=True)
        if self.has("experts-next"):
            chosen = (chosen + 1) % scores.shape[-1]
        out = np.zeros_like(x)
        for at, experts in enumerate(chosen):
            for expert, weight in zip(experts, weights[at], strict=True):
                gate, up = np.split(self.w[f"{layer}.experts.in"][expert] @ x[at], 2)
                if self.has("gate-up-swapped"):
                    gate, up = up, gate
                inner = self.r(self.active(self.r(gate)) * self.r(up))
                out[at] += np.float32(weight) * self.r(self.w[f"{layer}.experts.out"][expert] @ inner)
        return self.r(out)

    def active(self, x: np.ndarray) -> np.ndarray:
        """The activation."""
        kind = self.s.activation
        if self.has("activation"):
            kind = {"silu": "gelu", "gelu": "gelu_tanh", "gelu_tanh": "gelu", "relu": "gelu"}[kind]
        if kind == "silu":
            made: Any = x / (1 + np.exp(-x))
        elif kind == "gelu":
            made = x * (1 + _erf(x / sqrt(2))) / 2
        elif kind == "gelu_tanh":
            made = x * (1 + np.tanh(sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2
        else:
            made = np.maximum(x, 0)
        return self.r(np.asarray(made, np.float32))
