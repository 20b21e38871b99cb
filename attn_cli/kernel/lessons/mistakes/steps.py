"""Steps of kernels in the wrong form or order: exp2, the bias, the softcap, the sink; q, k, v, heads and the cache."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import permutations

import numpy as np

from attn_cli.kernel.definition.dense import scores
from attn_cli.kernel.definition.heads import join_heads
from attn_cli.kernel.definition.masks import Open
from attn_cli.kernel.definition.softmax import softmax
from attn_cli.kernel.lessons.mistakes.problem import Mistake, Problem, attended, attending
from attn_cli.kernel.lessons.precision import PRECISIONS


def softmax_mistakes(problem: Problem) -> Iterator[Mistake]:
    """Wrong implementations of what is done to scores: 2 taken for e, bias, softcap or sink in the wrong place."""
    rule, right = problem.rule, problem.right.scores
    if not rule.softmax:
        return
    for words, by in (
        ("2^score was taken for e^score: exp2 needs log2(e) in the scale", np.log(2)),
        ("log2(e) is in the scale, as exp2 needs it, and e^score was taken", 1 / np.log(2)),
    ):
        sink = None if rule.sink is None else rule.sink * by
        yield problem.mixed(words, partial(softmax, right * by, sink))
    if rule.sink is None:
        top = np.where(np.isfinite(right).any(axis=-1, keepdims=True), right.max(axis=-1, keepdims=True), 0.0)
        words = "weights are not divided by their sum: they are e^(score - maximum)"
        yield problem.mixed(words, lambda: np.exp(right - top))
    if isinstance(rule.bias, np.ndarray):
        for words, bias in (
            ("the bias has the wrong sign", -rule.bias),
            ("the bias was added before the scale, it comes after it", rule.bias * rule.scale),
            ("the bias is transposed: its rows are queries", rule.bias.swapaxes(-1, -2)),
        ):
            if bias.shape == rule.bias.shape:
                yield problem.attended(words, replace(rule, bias=bias))
    if rule.softcap is not None:
        cap = rule.softcap
        if rule.bias is not None:
            uncapped = scores(problem.q, problem.k, replace(rule, softcap=None))
            capped = np.where(np.isneginf(uncapped), uncapped, cap * np.tanh(uncapped / cap))
            words = "the softcap was applied after the bias, it comes before it"
            yield problem.mixed(words, partial(softmax, capped, rule.sink))
        if not isinstance(rule.mask, Open):
            words = f"the softcap was applied after the mask: masked scores are {-cap:g} instead of -inf"
            yield problem.mixed(words, partial(softmax, np.maximum(right, -cap), rule.sink))
    if rule.sink is not None:
        words = "the maximum was not subtracted from the sink"
        yield problem.mixed(words, partial(_with_sink_as_it_is, right, rule.sink))


def _with_sink_as_it_is(all_scores: np.ndarray, sink: np.ndarray) -> np.ndarray:
    top = all_scores.max(axis=-1, keepdims=True)
    powers = np.exp(all_scores - np.where(np.isfinite(top), top, 0.0))
    return np.asarray(powers / (powers.sum(axis=-1, keepdims=True) + np.exp(sink[:, None, None])))


def operand_mistakes(problem: Problem) -> Iterator[Mistake]:
    """Wrong implementations that take q, k, v, their heads, the cache's keys or rotary positions another way."""
    q, k, v, rule, rotation = problem.q, problem.k, problem.v, problem.rule, problem.rotation
    if q.shape == k.shape == v.shape:
        named = {"q": q, "k": k, "v": v}
        for a, b, c in (order for order in permutations("qkv") if order not in (("q", "k", "v"), ("q", "v", "k"))):
            words = f"q, k and v are in another order: {a}, {b}, {c} were taken for them"
            yield attended(words, named[a], named[b], named[c], rule)
    if len(q) > 1 and q.shape[-1] > 1:
        words = f"heads were cut column by column: head i got columns i, i + {len(q)} and so on"
        yield attending(words, lambda: (*problem.before_rotary(_every_other), _every_other(v), rule))
    n, m, e = q.shape[-2], *v.shape[-2:]
    if min(m, e) > 1:
        words = "v was reshaped where it must be transposed"
        reshaped = v.reshape(len(v), e, m).swapaxes(-1, -2)
        yield attending(words, lambda: (q, k, reshaped, rule))
    if n < m:
        words = f"the {n} new keys stand before those of the cache, they come after them"
        yield attending(words, lambda: (q, np.roll(k, n, -2), np.roll(v, n, -2), rule))
    if rotation is not None and v.shape[-1] % 2 == 0:
        words = "v was rotated too: rotary positions turn q and k alone"
        yield attending(words, lambda: (q, k, rotation.turn(v), rule))


def changed_operand_mistakes(problem: Problem) -> Iterator[Mistake]:
    """Wrong implementations that normalise q and k, round k and v to 8 bits, or add a residual to the output."""
    q, k, v, rule = problem.q, problem.k, problem.v, problem.rule
    for size, length in (("length", 1.0), ("root mean square", q.shape[-1] ** 0.5)):
        words = f"q and k were divided by their {size} in every head"
        yield attending(words, partial(lambda by: (_of_length(q, by), _of_length(k, by), v, rule), length))
    for name, most in (("int8", 127.0), ("float8_e4m3", 448.0), ("float8_e5m2", 57344.0)):
        words = f"k and v were rounded to {name}, by one scale for all of k and one for v"
        yield attending(words, partial(lambda *to: (q, _quantised(k, *to), _quantised(v, *to), rule), name, most))
    for name, residual in (("q", q), ("v", problem.values)):
        if residual.shape == (*q.shape[:2], v.shape[-1]):
            words = f"{name} was added to the output, as a residual is"
            yield attending(words, lambda: (q, k, v, rule), partial(np.add, residual))


def _of_length(x: np.ndarray, length: float) -> np.ndarray:
    norms = np.linalg.norm(x, axis=-1, keepdims=True)
    return np.asarray(x * length / np.where(norms > 0, norms, 1.0))


def _quantised(x: np.ndarray, name: str, most: float) -> np.ndarray:
    scale = float(np.abs(x).max(initial=0.0)) / most or 1.0
    return np.asarray(scale * (np.rint(x / scale) if name == "int8" else PRECISIONS[name].rounded(x / scale)))


def _every_other(x: np.ndarray) -> np.ndarray:
    h, n, d = x.shape
    return np.asarray(np.moveaxis(join_heads(x).reshape(n, d, h), -1, 0))
