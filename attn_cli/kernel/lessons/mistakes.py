"""The usual mistakes in attention kernels, made on purpose, so that wrong numbers can be recognised by their cause."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np

from attn_cli.kernel.definition.dense import attend, scores
from attn_cli.kernel.definition.heads import expand_groups, join_heads
from attn_cli.kernel.definition.mask import Mask
from attn_cli.kernel.definition.masks import Causal, Given, Intersection, Open, Prefix, Window, all_of
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.definition.softmax import softmax, unnormalised

HALF, SINGLE = 65504.0, 88.72  # the largest float16; the largest x whose exponential float32 holds

_AT_ONCE = 2  # mistakes in a rule that are tried together
_USUAL_CAPS = (50.0, 30.0, 20.0)  # of scores, in models and in kernels' tests


class Mistake(NamedTuple):
    """A mistake in words, and the weights `[h, n, m]` and output `[h, n, e]` that it leads to."""

    words: str
    weights: np.ndarray
    output: np.ndarray


def mistakes(q: np.ndarray, k: np.ndarray, v: np.ndarray, rule: Rule) -> Iterator[Mistake]:
    """Every mistake that is possible for this problem; q `[h, n, d]`, k `[g, m, d]`, v `[g, m, e]`."""
    for words, wrong in _wrong_rules(rule, q.shape[-1], q.shape[-2], k.shape[-2]):
        attention = attend(q, k, v, wrong)
        yield Mistake(words, attention.weights, attention.output)
    yield from _wrong_axes(q, k, v, rule)
    yield from _wrong_heads(q, k, v, rule)


def _wrong_rules(rule: Rule, d: int, n: int, m: int) -> Iterator[tuple[str, Rule]]:
    """Another scale, another mask, another softcap, two of them at once, or something left out."""
    changes = product(_scales(rule.scale, d), _masks(rule.mask, n, m), _softcaps(rule))
    for (scale_words, scale), (mask_words, mask), (cap_words, softcap) in changes:
        words = [part for part in (scale_words, mask_words, cap_words) if part]
        if 0 < len(words) <= _AT_ONCE:
            yield "; and ".join(words), replace(rule, scale=scale, mask=mask, softcap=softcap)
    if rule.softcap is None:
        for cap in _USUAL_CAPS:
            yield f"a softcap of {cap:g} was applied without being requested", replace(rule, softcap=cap)
    if rule.bias is not None:
        yield "the bias is missing", replace(rule, bias=None)
    if rule.sink is not None:
        yield "the sink is missing from the softmax", replace(rule, sink=None)
    if rule.softmax:
        yield "the softmax is missing", replace(rule, softmax=False, sink=None)


def _scales(scale: float, d: int) -> Iterator[tuple[str, float]]:
    yield "", scale
    if scale != 1:
        yield f"the scale is missing: q kᵀ was not multiplied by {scale:.4g}", 1.0
        yield f"the scale was applied twice, or is 1/d instead of 1/sqrt(d): {scale * scale:.4g}", scale * scale
        yield f"q kᵀ was divided by {scale:.4g} instead of multiplied", 1 / scale
    if abs(scale - d**-0.5) > 1e-9:
        yield f"the scale is 1/sqrt(d) = {d**-0.5:.4g}, {scale:.4g} was asked for", d**-0.5


def _softcaps(rule: Rule) -> Iterator[tuple[str, float | None]]:
    yield "", rule.softcap
    if rule.softcap is not None:
        yield "the softcap is missing", None
        if rule.scale > 0 and rule.scale != 1:  # c tanh(x / c) s is (c s) tanh(x s / (c s))
            yield "the softcap was applied before the scale, it comes after it", rule.softcap * rule.scale


def _masks(mask: Mask, n: int, m: int) -> Iterator[tuple[str, Mask]]:
    yield "", mask
    parts = mask.masks if isinstance(mask, Intersection) else (mask,)
    causal = [part for part in parts if isinstance(part, Causal)]
    if not isinstance(mask, Open):
        yield f"the mask is missing ({mask})", Open()
    for diagonal in causal:
        rest = [other for other in parts if other is not diagonal]
        sides = {0: "first query with the first key", m - n: "last query with the last key"}
        for offset, side in sides.items():
            if offset != diagonal.offset:
                yield f"the causal mask is aligned the other way: {side}", all_of(Causal(offset), *rest)
        yield (
            "the causal mask blocks the diagonal too (j < i instead of j <= i)",
            all_of(Causal(diagonal.offset - 1), *rest),
        )
        yield "the causal mask lets every query see one key ahead", all_of(Causal(diagonal.offset + 1), *rest)
        if rest:
            yield f"only the causal mask was applied, not {all_of(*rest)}", diagonal
            yield "the causal mask is missing", all_of(*rest)
    for part in parts:
        rest = [other for other in parts if other is not part]
        if isinstance(part, Window):
            yield "the window is one key too wide", all_of(Window(part.size + 1, part.offset, part.both_sides), *rest)
            if part.size > 1:
                narrower = Window(part.size - 1, part.offset, part.both_sides)
                yield "the window is one key too narrow", all_of(narrower, *rest)
        if isinstance(part, Given):
            yield "the mask is inverted: 1 was taken as blocked", all_of(Given(~part.cells), *rest)
    if not causal and not any(isinstance(part, Prefix) for part in parts):
        yield "a causal mask was applied without being requested", all_of(Causal(), mask)
        if n != m:
            yield "a causal mask (bottom-right) was applied without being requested", all_of(Causal(m - n), mask)


def _wrong_axes(q: np.ndarray, k: np.ndarray, v: np.ndarray, rule: Rule) -> Iterator[Mistake]:
    """A softmax over another axis; a mask after the softmax; a key matrix that was reshaped."""
    values = expand_groups(v, q.shape[0])

    def mixed(words: str, weights: np.ndarray) -> Mistake:
        return Mistake(words, weights, weights @ values)

    if not rule.softmax:
        return
    all_scores = scores(q, k, rule)
    yield mixed("the softmax runs over the queries instead of the keys", _softmax_over(all_scores, -2))
    if len(q) > 1:
        yield mixed("the softmax runs over the heads instead of the keys", _softmax_over(all_scores, 0))
    if not isinstance(rule.mask, Open):
        unmasked = softmax(scores(q, k, replace(rule, mask=Open())), rule.sink)
        yield mixed("the mask was applied after the softmax: rows no longer add to 1",
                    np.where(np.isneginf(all_scores), 0, unmasked))  # fmt: skip
        zeroed = np.where(np.isneginf(all_scores), 0, unnormalised(all_scores))
        yield mixed("blocked scores were set to 0 instead of -inf", softmax(zeroed, rule.sink))
    if k.shape[-1] > 1 and k.shape[-2] > 1:
        reshaped = k.reshape(len(k), k.shape[-1], k.shape[-2]).swapaxes(-1, -2)
        wrong = attend(q, reshaped, v, rule)
        yield Mistake("k was reshaped where it must be transposed", wrong.weights, wrong.output)


def _softmax_over(all_scores: np.ndarray, axis: int) -> np.ndarray:
    moved = np.moveaxis(all_scores, axis, -1)
    shaped = softmax(moved.reshape(1, -1, moved.shape[-1])).reshape(moved.shape)
    return np.moveaxis(shaped, -1, axis)


def _wrong_heads(q: np.ndarray, k: np.ndarray, v: np.ndarray, rule: Rule) -> Iterator[Mistake]:
    """Grouped heads paired wrongly; heads cut or joined without moving the axis."""
    h, g = len(q), len(k)
    if 1 < g < h:
        wrong = attend(q, np.tile(k, (h // g, 1, 1)), np.tile(v, (h // g, 1, 1)), rule)
        words = f"grouped key heads were tiled instead of repeated: head i read key head i mod {g}"
        yield Mistake(words, wrong.weights, wrong.output)
    if 1 < g <= h:
        wrong = attend(q, k[:1], v[:1], rule)
        yield Mistake("every head read key head 0", wrong.weights, wrong.output)
    if h > 1:
        wrong = attend(_recut(q), _recut(k), _recut(v), rule)
        yield Mistake("heads were cut by a reshape alone: [n, h * d] to [h, n, d] without moving the axis",
                   wrong.weights, wrong.output)  # fmt: skip
        right = attend(q, k, v, rule)
        n, e = right.output.shape[-2:]
        joined = right.output.reshape(n, h * e).reshape(n, h, e).swapaxes(0, 1)  # so that joining it gives that order
        yield Mistake("heads were joined by a reshape alone: [h, n, e] to [n, h * e] without moving the axis",
                   right.weights, joined)  # fmt: skip


def _recut(x: np.ndarray) -> np.ndarray:
    return np.asarray(join_heads(x).reshape(x.shape))


def why_nan(q: np.ndarray, k: np.ndarray, rule: Rule, rows: np.ndarray) -> str:
    """The likely reason that exactly these rows hold NaN or Inf; "" if the numbers show none.

    rows  booleans `[h, n]`, or `[1, n]` where heads were joined and one bad head spoils the row
    """

    def exactly(cells: np.ndarray) -> bool:
        of_rows = cells if len(rows) == len(cells) else cells.any(axis=0, keepdims=True)
        return bool(of_rows.any() and (rows == of_rows).all())

    all_scores = scores(q, k, rule)
    dead = np.isneginf(all_scores).all(axis=-1)
    if exactly(np.asarray(dead)):
        return "these rows are fully masked: the softmax of -inf alone is NaN, and they must be 0"
    raw = np.abs(q @ np.swapaxes(expand_groups(k, len(q)), -1, -2)).max(axis=-1)
    if exactly(np.asarray(raw > HALF)):
        return f"q · k overflows float16: it reaches {raw.max():.3g}, beyond 65,504; scale q first, or add in float32"
    largest = np.where(np.isneginf(all_scores), -np.inf, all_scores).max(axis=-1)
    for limit, name in ((SINGLE, "float32"), (11.09, "float16"), (709.78, "float64")):
        if exactly(np.asarray(largest > limit)):
            return f"e^score overflows {name} beyond {limit:.4g}: subtract the row's maximum before the exponential"
    return ""
