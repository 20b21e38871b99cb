"""`attn compute --expect` of kernels and modules of others: a mistake gets its own name, no innocent is blamed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from attn_cli.kernel.definition.mask import causal as causal_mask
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.lessons.mistakes.problem import Problem
from attn_cli.kernel.lessons.mistakes.register import mistakes
from tests.program import attn, file_words

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


def tf32(x: np.ndarray) -> np.ndarray:
    bits = np.asarray(x, dtype=np.float32).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)


pytestmark = pytest.mark.usefixtures("here")


Of = Callable[[np.ndarray], np.ndarray]


def attention(a: Arrays, *, seen: np.ndarray | None = None, scale: float | None = None, masked: float = -np.inf,
              cap: float = 0.0, bias: Any = 0.0, of: Of = soft) -> np.ndarray:  # fmt: skip
    """Attention with all in its place; `seen` are the cells that are not masked, `of` makes weights of scores."""
    q, k, v = a["q"], repeat(a["k"], len(a["q"])), repeat(a["v"], len(a["q"]))
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = (np.tanh(scores / cap) * cap if cap else scores) + bias
    return of(scores if seen is None else np.where(seen, scores, masked)) @ v


def under(mask: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[[Arrays], np.ndarray]:
    def kernel(a: Arrays) -> np.ndarray:
        return attention(a, seen=mask(np.arange(a["q"].shape[1])[:, None], np.arange(a["k"].shape[1])[None]))

    return kernel


def tril(a: Arrays, offset: int = 0) -> np.ndarray:
    return causal(a["q"].shape[1], a["k"].shape[1], offset)


def in_pairs(x: np.ndarray, **how: Any) -> np.ndarray:
    """x turned by rotary positions with pairs of neighbouring columns."""
    halves = np.concatenate((x[..., ::2], x[..., 1::2]), axis=-1)
    return np.stack(np.split(turned(halves, **how), 2, -1), -1).reshape(x.shape)


def with_epsilon(scores: np.ndarray, epsilon: Any, *, shifted: bool = True) -> np.ndarray:
    powers = np.exp(scores - (scores.max(-1, keepdims=True) if shifted else 0))
    return powers / (powers.sum(-1, keepdims=True) + epsilon)


def alibi(a: Arrays, sign: int = -1, of: int = 4) -> np.ndarray:
    i, j = np.ogrid[: a["q"].shape[1], : a["k"].shape[1]]
    return sign * 2.0 ** (-8 * np.arange(1, len(a["q"]) + 1) / of)[:, None, None] * abs(i - j)


def recut(a: Arrays, cut: Callable[[np.ndarray], np.ndarray]) -> Arrays:
    return {name: cut(a[name]) for name in "qkv"}


def rotated(a: Arrays, **how: Any) -> Arrays:
    return a | {"q": turned(a["q"], **how), "k": turned(a["k"], **how)}


def first_row(a: Arrays, row: Any) -> np.ndarray:
    return np.where(np.arange(a["q"].shape[1])[:, None] > 0, attention(a, seen=tril(a, -1)), row)


T = 32
OPEN, CAUSAL, ROTARY = (), ("--mask", "causal"), ("--mask", "causal", "--positions", "rotary")
WINDOW, LENGTHS, PREFIX = ("--mask", "window:20", *CAUSAL), ("--mask", "lengths:37"), ("--mask", "prefix:9")
CAP, SINK, ALIBI = ("--softcap", "2", *CAUSAL), ("--sink", "sink.npy"), ("--positions", "alibi", *CAUSAL)
BIAS, PAST, CELLS = ("--mask", "additive:bias.npy"), ("--mask", "causal-bottom-right"), ("--mask", "cells.npy")
Planted = tuple[tuple[str, ...], Callable[[Arrays], np.ndarray], str]

TILES: dict[str, Planted] = {
    "diagonal tile unmasked": (CAUSAL, under(lambda i, j: j < i // T * T + T), "is not masked: rows see all its"),
    "one ahead within a tile": (
        CAUSAL, under(lambda i, j: (j <= i + 1) & (j // T <= i // T)), "off by one within a tile of"),
    "ahead from the second tile of queries": (
        CAUSAL, under(lambda i, j: j <= i + (i >= T)), "queries on: a query sees one key ahead"),
    "places in tiles": (CAUSAL, under(lambda i, j: (j % T <= i % T) & (j // T <= i // T)), "compares places within"),
    "mask of the first tile": (CAUSAL, under(lambda i, j: j <= i % T), "queries is that of the first"),
    "own tile alone": (CAUSAL, under(lambda i, j: (j <= i) & (j // T == i // T)), "see the keys of their own tile"),
    "diagonal tile skipped": (CAUSAL, under(lambda i, j: j // T < i // T), "keys on the diagonal is skipped"),
    "first tile left out": (OPEN, under(lambda i, j: j >= T + 0 * i), "keys, a tile, were left out"),
    "last tile left out": (OPEN, under(lambda i, j: j < j.size // T * T + 0 * i), "the last 8 keys were left out"),
    "last key left out": (OPEN, under(lambda i, j: j < j.size - 1 + 0 * i), "the last key was left out"),
    "accumulator not rescaled": (
        CAUSAL, lambda a: flash(a, 16, rescale="sum"), "the accumulator is not rescaled"),
    "nothing rescaled": (CAUSAL, lambda a: flash(a, T, rescale="none"), "neither the accumulator nor the sum"),
    "last tile of queries zero": (
        CAUSAL, lambda a: zero_rows(plain(a), 16), "the last tile of queries"),
    "tiles divided": (OPEN, lambda a: attention(a, of=lambda s: np.concatenate(
        [soft(s[..., at : at + T]) for at in range(0, s.shape[-1], T)], -1)), "is divided by its own sum"),
    "padded keys taken in": (
        OPEN, lambda a: attention({**a, **{x: np.pad(a[x], ((0, 0), (0, -a[x].shape[1] % T), (0, 0))) for x in "kv"}}),
        "zero keys that fill the last tile took part"),
}  # fmt: skip
MASKS: dict[str, Planted] = {
    "mask missing": (CAUSAL, attention, "the mask is missing (causal)"),
    "one ahead": (CAUSAL, under(lambda i, j: j <= i + 1), "every query see one key ahead"),
    "diagonal blocked": (CAUSAL, under(lambda i, j: j < i), "blocks the diagonal"),
    "diagonal blocked, -1e9": (CAUSAL, lambda a: first_row(a, a["v"].mean(1)[:, None]), "blocks the diagonal"),
    "diagonal blocked, row 0 NaN": (CAUSAL, lambda a: first_row(a, np.nan), "blocks the diagonal"),
    "aligned at the top": (PAST, lambda a: attention(a, seen=tril(a)), "the causal mask is aligned the other"),
    "causal unasked": (OPEN, lambda a: attention(a, seen=tril(a)), "a causal mask was applied without"),
    "window of the half": (WINDOW, under(lambda i, j: (j <= i) & (j > i - 10)), "the window is 10 keys wide, 20 were"),
    "window aligned at the top": (
        ("--mask", "window:20", *PAST), lambda a: attention(a, seen=tril(a, 24) & ~tril(a, -20) & (
            np.arange(96) < np.arange(72)[:, None] + 20)), "the window is aligned the other way"),
    "window wide": (WINDOW, under(lambda i, j: (j <= i) & (j > i - 21)), "the window is one key too wide"),
    "padding seen": (LENGTHS, attention, "the mask is missing (padding)"),
    "padding mirrored": (LENGTHS, under(lambda i, j: j >= j.size - 37 + 0 * i), "of padding on the other side"),
    "length one more": (LENGTHS, under(lambda i, j: j <= 37 + 0 * i), "takes one key of padding in"),
    "prefix causal": (PREFIX, under(lambda i, j: j <= i), "the prefix is masked causally too"),
    "given mask transposed": (CELLS, lambda a: attention(a, seen=a["cells"].T), "the mask is transposed"),
    "transposed": (CAUSAL, under(lambda i, j: j >= i), "the causal mask is transposed"),
    "inverted": (CAUSAL, under(lambda i, j: j > i), "the causal mask is inverted"),
    "given mask inverted": (CELLS, lambda a: attention(a, seen=~a["cells"]), "the mask is inverted"),
    "mask after softmax": (
        CAUSAL, lambda a: attention(a, of=lambda s: np.where(tril(a), soft(s), 0)), "applied after the softmax"),
    "masked scores 0": (CAUSAL, lambda a: attention(a, seen=tril(a), masked=0), "set to 0 instead of -inf"),
}  # fmt: skip
SCORES: dict[str, Planted] = {
    "scale missing": (CAUSAL, lambda a: attention(a, seen=tril(a), scale=1.0), "the scale is missing"),
    "scale twice": (CAUSAL, lambda a: attention(a, seen=tril(a), scale=1 / a["q"].shape[-1]), "the scale was applied"),
    "scale of the width": (
        CAUSAL, lambda a: attention(a, seen=tril(a), scale=a["q"][:, 0].size ** -0.5), "the model's width"),
    "scale divided by": (CAUSAL, lambda a: attention(a, seen=tril(a), scale=a["q"].shape[-1] ** 0.5), "was divided by"),
    "scale and mask missing": (
        CAUSAL, lambda a: attention(a, scale=1.0), "the scale is missing; and the mask is missing (causal)"),
    "exp2": (CAUSAL, lambda a: attention(a, seen=tril(a), of=lambda s: soft(s * np.log(2))), "2^score was taken for"),
    "log2(e) with exp": (OPEN, lambda a: attention(a, of=lambda s: soft(s / np.log(2))), "log2(e) is in the scale"),
    "softmax over queries": (OPEN, lambda a: attention(a, of=lambda s: soft(s, -2)), "over the queries instead"),
    "softmax over heads": (OPEN, lambda a: attention(a, of=lambda s: soft(s, 0)), "over the heads instead"),
    "not divided": (CAUSAL, lambda a: attention(a, seen=tril(a), of=lambda s: np.exp(s - s.max(-1, keepdims=True))),
                    "weights are not divided by their sum"),
    "softmax missing": (OPEN, lambda a: attention(a, of=np.asarray), "the softmax is missing"),
    "epsilon": (CAUSAL, lambda a: attention(a, seen=tril(a), of=lambda s: with_epsilon(s, 1e-3)),
                "an epsilon of 0.001 is added"),
    "epsilon of sums": (
        OPEN, lambda a: attention(a, of=lambda s: with_epsilon(s, 1.0, shifted=False)), "sum before the maximum is"),
    "bias missing": (BIAS, attention, "the bias is missing"),
    "bias before scale": (BIAS, lambda a: attention(a, bias=a["bias"] * a["q"].shape[-1] ** -0.5),
                          "the bias was added before the scale"),
    "bias transposed": (BIAS, lambda a: attention(a, bias=a["bias"].mT), "the bias is transposed"),
    "ALiBi's sign": (ALIBI, lambda a: attention(a, seen=tril(a), bias=alibi(a, 1)), "the bias has the wrong sign"),
    "ALiBi of 8 heads": (ALIBI, lambda a: attention(a, seen=tril(a), bias=alibi(a, of=8)), "ALiBi are those of 8"),
    "softmax twice": (CAUSAL, lambda a: attention(a, seen=tril(a), of=lambda s: soft(soft(s))), "was applied twice, t"),
    "softcap missing": (CAP, lambda a: attention(a, seen=tril(a)), "the softcap is missing"),
    "softcap unasked": (CAUSAL, lambda a: attention(a, seen=tril(a), cap=30.0), "a softcap of 30 was applied without"),
    "softcap before the scale": (
        CAP, lambda a: attention(a, seen=tril(a), scale=1.0, cap=2.0, of=lambda s: soft(s * a["q"].shape[-1] ** -0.5)),
        "the softcap was applied before the scale"),
    "sink missing": (SINK, attention, "the sink is missing"),
}  # fmt: skip
OPERANDS: dict[str, Planted] = {
    "q for k": (CAUSAL, lambda a: attention(a | {"q": a["k"], "k": a["q"]}, seen=tril(a)), "order: k, q, v were taken"),
    "k and v": (CAUSAL, lambda a: attention(a | {"k": a["v"], "v": a["k"]}, seen=tril(a)), "k and v are in each other"),
    "groups tiled": (CAUSAL, lambda a: attention(a | {x: np.tile(a[x], (2, 1, 1)) for x in "kv"}, seen=tril(a)),
                     "tiled instead of repeated"),
    "one key head": (CAUSAL, lambda a: attention(a | {x: a[x][:1] for x in "kv"}, seen=tril(a)), "read key head 0"),
    "heads by a reshape": (
        CAUSAL, lambda a: attention(recut(a, reshaped), seen=tril(a)), "heads were cut by a reshape"),
    "heads joined by a reshape": (
        CAUSAL, lambda a: attention(a, seen=tril(a)).reshape(72, -1), "heads were joined by a reshape"),
    "keys reshaped": (OPEN, lambda a: attention(a | {"k": a["k"].reshape(len(a["k"]), -1, 72).mT}), "k was reshaped"),
    "keys late": (OPEN, lambda a: attention(a | {"k": np.roll(a["k"], 1, -2)}), "keys stand one place too late"),
    "new keys first": (
        PAST, lambda a: attention(a | {x: np.roll(a[x], 72, -2) for x in "kv"}, seen=tril(a, 24)),
        "before those of"),
    "new keys missing": (OPEN, lambda a: attention(a | {x: a[x][:, :24] for x in "kv"}),
                         "the last 72 keys were left out"),
    "not rotated": (ROTARY, lambda a: attention(a, seen=tril(a)), "q and k were not rotated"),
    "keys not rotated": (ROTARY, lambda a: attention(rotated(a) | {"k": a["k"]}, seen=tril(a)), "k was not rotated"),
    "keys rotated one place off": (
        ROTARY, lambda a: attention(a | {"q": turned(a["q"]), "k": turned(a["k"], 1)}, seen=tril(a)),
        "keys are rotated one place"),
    "rotated twice": (ROTARY, lambda a: attention(rotated(rotated(a)), seen=tril(a)), "were rotated twice"),
    "rotated backwards": (ROTARY, lambda a: attention(rotated(a, sign=-1), seen=tril(a)), "the sine has the wrong"),
    "rotated unasked": (CAUSAL, lambda a: attention(rotated(a), seen=tril(a)), "rotary positions were applied without"),
    "rotated in pairs": (
        ROTARY, lambda a: attention(a | {x: in_pairs(a[x]) for x in "qk"}, seen=tril(a)),
        "the rotated pairs are columns 2i"),
    "usual base": (
        (*CAUSAL, "--positions", "rotary:500000"), lambda a: attention(rotated(a), seen=tril(a)),
        "base of rotary positions is 10,000"),
    "frequencies of i / d": (
        ROTARY, lambda a: attention(rotated(a, base=100.0), seen=tril(a)), "the base of rotary positions is 100,"),
    "positions of a cache": (
        ROTARY, lambda a: attention(rotated(a) | {"q": turned(a["q"], 24)}, seen=tril(a)), "at position 24, not 0"),
    "positions without the cache": (
        (*PAST, "--positions", "rotary"), lambda a: attention(rotated(a), seen=tril(a, 24)), "at position 0, not 24"),
}  # fmt: skip

PLANTED = TILES | MASKS | SCORES | OPERANDS
FAINT = ("epsilon", "epsilon of sums", "softcap unasked", "sink missing")  # in 16 bits
SHAPES: dict[str, dict[str, int]] = {name: {"m": 96} for name, (options, _, _) in PLANTED.items() if PAST[1] in options}
SHAPES |= {"new keys missing": {"m": 96}, "positions of a cache": {"m": 96}}
SHAPES |= {"groups tiled": {"g": 2}, "q for k": {"g": 4}, "k and v": {"g": 4}}


def named(name: str, seed: int, dtype: Any, d: int = 16) -> str:
    """The cause that is named for a planted mistake, in arrays of that seed, type and width; else the picture."""
    options, kernel, _ = PLANTED[name]
    a = arrays(seed, **{"h": 4, "n": 72, "d": d, "g": (4, 2)[seed % 2]} | SHAPES.get(name, {}))
    random = np.random.default_rng(seed)
    n, m = a["q"].shape[1], a["k"].shape[1]
    a |= {"bias": random.normal(size=(4, n, m)), "sink": random.normal(size=(1, 4))}
    is_low = dtype is torch.bfloat16
    a = {array: half(x) if is_low else x.astype(dtype).astype(np.float64) for array, x in a.items()}
    a["cells"] = random.random((n, m)) < 0.7
    output = kernel(a)
    check = said(a, half(output) if is_low else output, options, np.float32 if is_low else dtype)
    return str(check["cause"] or check["picture"])


def said(a: Arrays, output: np.ndarray, options: tuple[str, ...], dtype: type = np.float64) -> dict[str, Any]:
    """The verdict on an output; all arrays are saved as numbers of that type."""
    for array, x in (a | {"mine": output}).items():
        np.save(f"{array}.npy", x if x.dtype == bool else x.astype(dtype))
    files = (word for array in "qkv" for word in (f"--{array}", f"{array}.npy"))
    run = attn("compute", *files, *options, "-q", "--expect", "mine.npy", "--json")
    check: dict[str, Any] = run.json["tables"]["verdicts"][0]
    assert run.code == (0 if check["right"] else 1)
    return check


def assert_own_name(name: str, *case: Any) -> None:
    cause = named(name, *case)
    parts = {part for _, _, words in PLANTED.values() for part in words.split("; and ")}
    assert {part for part in parts if part in cause} == set(PLANTED[name][2].split("; and ")), (case, cause)


@pytest.mark.parametrize("name", PLANTED)
def test_a_mistake_gets_its_own_name_and_none_of_another(name: str) -> None:
    at = list(PLANTED).index(name)
    assert_own_name(
        name, at, np.float32 if name in FAINT else (np.float64, np.float32, np.float16, torch.bfloat16)[at % 4]
    )


RIGHT: dict[tuple[str, ...], Callable[[Arrays], dict[str, Any]]] = {
    OPEN: lambda a: {},
    CAUSAL: lambda a: {"seen": tril(a)},
    ROTARY: lambda a: {"seen": tril(a), "turn": turned},
    WINDOW: lambda a: {"seen": tril(a) & ~tril(a, -20)},
    LENGTHS: lambda a: {"seen": np.arange(a["k"].shape[1])[None] < 37},
    PREFIX: lambda a: {"seen": tril(a) | (np.arange(a["k"].shape[1])[None] < 9)},
    PAST: lambda a: {"seen": tril(a, 24)},
    CAP: lambda a: {"seen": tril(a), "cap": 2.0},
    SINK: lambda a: {"sink": a["sink"].reshape(-1, 1, 1)},
    ALIBI: lambda a: {"seen": tril(a), "bias": alibi(a)},
    BIAS: lambda a: {"bias": a["bias"]},
}


def in_tiles(a: Arrays, tile: int, rounded: dict[str, Of], *, seen: Any = True, cap: float = 0.0, bias: Any = 0.0,
             sink: Any = -np.inf, turn: Of = np.asarray) -> np.ndarray:  # fmt: skip
    """A right kernel that takes keys in tiles, and rounds its inputs, scores, powers and output as it likes."""
    q, k, v = (rounded["in"](x) for x in (turn(a["q"]), repeat(turn(a["k"]), 4), repeat(a["v"], 4)))
    scores = q @ k.mT * q.shape[-1] ** -0.5
    scores = np.where(seen, (np.tanh(scores / cap) * cap if cap else scores) + bias, -np.inf)
    top = np.broadcast_to(np.maximum(sink, -1e30), (*scores.shape[:2], 1))
    total, output = np.exp(sink - top), np.zeros(q.shape)
    for start in range(0, k.shape[1], tile):
        part = rounded["scores"](scores[..., start : start + tile])
        new = np.maximum(top, part.max(-1, keepdims=True))
        fade, powers = np.exp(top - new), np.exp(part - new)
        total = total * fade + powers.sum(-1, keepdims=True)
        output, top = output * fade + rounded["powers"](powers) @ v[:, start : start + tile], new
    return rounded["out"](output / total)


ROUNDINGS = (np.asarray, np.asarray, tf32, np.float32, half, lambda x: half(x, torch.float16))


def innocent(seed: int) -> dict[str, Any]:
    """What is said of a right kernel whose mask, sizes, tiles and rounding are drawn."""
    random = np.random.default_rng(seed)
    options = list(RIGHT)[random.integers(len(RIGHT))]
    g, n, d = random.choice([1, 2, 4]), random.integers(38, 100), 2 ** random.integers(3, 7)
    a = arrays(seed, h=4, n=n, d=d, g=g, m=n + 24 * (options == PAST))
    a |= {"bias": random.normal(size=(4, n, n)), "sink": random.normal(size=(1, 4))}
    a = {name: x.astype(np.float32).astype(np.float64) for name, x in a.items()}
    rounded = {what: ROUNDINGS[random.integers(len(ROUNDINGS))] for what in ("in", "scores", "powers", "out")}
    output = in_tiles(a, 2 ** random.integers(4, 9), rounded, **RIGHT[options](a))
    return said(a, output, options, (np.float64, np.float32)[seed % 2])


@pytest.mark.parametrize("seed", range(12))
def test_no_innocent_kernel_gets_a_cause(seed: int) -> None:
    assert innocent(seed)["cause"] is None


def noise(part: np.ndarray) -> None:
    part += np.random.default_rng(0).normal(size=part.shape)


@pytest.mark.parametrize(
    ("change", "picture"),
    [
        (lambda out: noise(out[:, 16:]), "rows 0-15 of every head are right, from row 16 on they are wrong"),
        (lambda out: noise(out[2]), "every row of head 2 is wrong"),
        (lambda out: noise(out[1:3, 5]), "row 5 of heads 1-2 is wrong"),
        (lambda out: noise(out[..., 12:]), "every row of every head is wrong, in columns 12-15 alone"),
    ],
)
def test_what_is_in_no_register_is_described_and_not_explained(change: Callable, picture: str) -> None:
    a = arrays(3)
    output = plain(a)
    change(output)
    found = said(a, output, CAUSAL)
    assert found["cause"] is None
    assert found["rounding"] is None
    assert picture in found["picture"]


def test_every_mistake_of_the_register_has_one_sentence_and_changes_something() -> None:
    q, k, v = arrays(0, h=4, n=24, d=4, g=2).values()
    problem = Problem(q, k, v, Rule(0.5, mask=causal_mask(), softcap=3.0), 16, None, np.ones(24, bool))
    found = list(mistakes(problem))
    assert len({words for words, _ in found}) == len(found)
    for words, make in found:
        assert not np.allclose(make().output, problem.right.output, 0, 1e-12) or "rescaled" in words


def cause(given: Arrays, expected: Arrays, *options: str, dtype: type = np.float64) -> str:
    """The cause that is named for arrays of the options that `given` and `expected` name."""
    for name, x in (given | expected).items():
        np.save(f"{name}.npy", x.astype(dtype))
    words = [*file_words(given), *(word for name in expected for word in ("--expect", f"{name}={name}.npy"))]
    run = attn("compute", *words, *options, "-q", "--json")
    assert run.code == 1
    return run.json["tables"]["verdicts"][0]["cause"] or ""


def dropped(x: np.ndarray, p: float, seed: int) -> np.ndarray:
    torch.manual_seed(seed)
    return torch.nn.functional.dropout(torch.from_numpy(x), p).numpy()


DROPOUT = "dropout was left on, p about"


@pytest.mark.parametrize(("weights", "mask"), [(soft, ()), (weights_of, CAUSAL)])
@pytest.mark.parametrize(("p", "dtype"), [(0.1, np.float16), (0.33, np.float32), (0.5, np.float64)])
def test_dropout_left_on_is_named_with_its_p(weights, mask: tuple[str, ...], p: float, dtype: type) -> None:
    for seed, g in enumerate((4, 2, 1)):
        a = {name: x.astype(dtype).astype(float) for name, x in arrays(seed, n=40, d=64, g=g).items()}
        right = weights(scores_of(a))
        wrong = dropped(right, p, seed)
        output = wrong @ repeat(a["v"], 4)
        assert f"{DROPOUT} {p:g}:" in cause(a, {"weights": wrong}, *mask, dtype=dtype)
        if dtype is not np.float16:  # too few digits for the weights behind an output
            assert f"{DROPOUT} {p:g}:" in cause(a, {"output": output, "weights": right}, *mask, dtype=dtype)
            assert f"{DROPOUT} {p:g}:" in cause(a, {"output": output}, *mask, dtype=dtype)


@pytest.mark.parametrize("names", ["q", "o", "qkv", "qkvo"])
@pytest.mark.parametrize(("dtype", "options"), [(np.float64, ()), (np.float32, ("--positions", "rotary", *CAUSAL))])
def test_square_weights_of_linear_layers_are_named_as_transposed(names: str, dtype: type, options) -> None:
    """The module is torch's own, whose weights are [out, in]; of `names` they were saved as they are."""
    torch.manual_seed(len(names))
    layers = {name: torch.nn.Linear(32, 32, bias=False, dtype=torch.float64) for name in "qkvo"}
    x = torch.randn(20, 32, dtype=torch.float64)
    given = {"x": x.numpy()}
    given |= {f"w{n}": (w.weight if n in names else w.weight.T).detach().numpy() for n, w in layers.items()}
    given = {name: a.astype(dtype).astype(float) for name, a in given.items()}
    wq, wk, wv, wo = (given[f"w{n}"] if n not in names else given[f"w{n}"].T for n in "qkvo")
    q, k, v = ((given["x"] @ w).reshape(20, 4, 8).swapaxes(0, 1) for w in (wq, wk, wv))
    q, k = (turned(q), turned(k)) if options else (q, k)
    output = plain({"q": q, "k": k, "v": v}, mask=None if options else np.ones((1, 1), bool))
    named = cause(given, {"output": output.swapaxes(0, 1).reshape(20, 32) @ wo}, "--heads", "4", *options, dtype=dtype)
    assert named.startswith(f"{', '.join(f'w{n}' for n in names)} {'is' if len(names) == 1 else 'are'} transposed")


def test_w_o_left_out_is_named() -> None:
    random = np.random.default_rng(0)
    given = {"x": random.normal(size=(9, 8)), "wo": random.normal(size=(8, 8))}
    heads = given["x"].reshape(9, 2, 4).swapaxes(0, 1)
    output = (soft(heads @ heads.mT / 2) @ heads).swapaxes(0, 1).reshape(9, 8)
    assert "W_O was not applied" in cause(given, {"output": output}, "--heads", "2")


def test_mixed_batch_entries_are_named() -> None:
    q, k, v = np.random.default_rng(0).normal(size=(3, 3, 2, 7, 4))
    seen = np.arange(7) < np.array([4, 7, 6])[:, None, None, None]

    def attention(k: np.ndarray, v: np.ndarray, seen: np.ndarray) -> np.ndarray:
        return soft(np.where(seen, q @ k.mT / 2, -np.inf)) @ v

    def causes(output: np.ndarray, lengths: str = "lengths:4,7,6") -> list[str | None]:
        cause({"q": q, "k": k, "v": v}, {"output": output}, "--mask", lengths)
        files = ("--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--mask", lengths, "--expect", "output.npy")
        return [check["cause"] for check in attn("compute", *files, "-q", "--json").json["tables"]["verdicts"]]

    assert causes(attention(k[:1], v[:1], seen)) == [None, *["k and v are those of batch entry 0"] * 2]
    assert causes(attention(k, v, seen[:1])) == [None, *["the mask is that of batch entry 0"] * 2]
    assert "missing (padding), or is that of" in str(causes(attention(k, v, seen | True), "lengths:7,4,6"))
