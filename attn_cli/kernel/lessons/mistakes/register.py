"""The register of usual mistakes in attention kernels: each made on purpose, to know wrong numbers by their cause."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np

from attn_cli.kernel.definition.dense import scores
from attn_cli.kernel.definition.heads import expand_groups, join_heads, split_heads
from attn_cli.kernel.definition.masks import Open
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.definition.softmax import softmax, unnormalised
from attn_cli.kernel.lessons.mistakes.problem import Made, Mistake, Problem, attended, attending
from attn_cli.kernel.lessons.mistakes.rotary import rotary_mistakes
from attn_cli.kernel.lessons.mistakes.scale_mask_softcap import rule_mistakes
from attn_cli.kernel.lessons.mistakes.steps import changed_operand_mistakes, operand_mistakes, softmax_mistakes
from attn_cli.kernel.lessons.mistakes.tile_masks import tile_mask_mistakes
from attn_cli.kernel.lessons.mistakes.tiles import tile_mistakes
from attn_cli.kernel.lessons.precision import PRECISIONS, Precision

HALF, SINGLE = 65504.0, 88.72  # the largest float16; the largest x whose exponential float32 holds


def why_nan(q: np.ndarray, k: np.ndarray, rule: Rule, rows: np.ndarray) -> str:
    """The likely reason why these rows `[h, n]` (heads joined: `[1, n]`) hold NaN or Inf; "" for none."""

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


def head_mistakes(problem: Problem) -> Iterator[Mistake]:
    """Wrong implementations of this attention's heads: key heads shared wrongly, heads cut or joined by a reshape."""
    q, k, v, rule = problem.q, problem.k, problem.v, problem.rule
    h, g = len(q), len(k)
    if 1 < g < h:
        words = f"grouped key heads were tiled instead of repeated: head i read key head i mod {g}"
        tiled = (h // g, 1, 1)
        yield attending(words, lambda: (q, np.tile(k, tiled), np.tile(v, tiled), rule))
    if 1 < g <= h:
        yield attended("every head read key head 0", q, k[:1], v[:1], rule)
    if h == 1:
        return
    n, e = q.shape[-2], v.shape[-1]

    def joined(output: np.ndarray) -> np.ndarray:
        return np.asarray(split_heads(output.reshape(n, h * e), h))

    words = "heads were cut by a reshape alone: [n, h * d] to [h, n, d] without moving the axis"
    yield attending(words, lambda: (*problem.before_rotary(_recut), _recut(v), rule))
    words = "heads were cut and joined by a reshape alone: a transpose is missing on both sides"
    yield attending(words, lambda: (*problem.before_rotary(_recut), _recut(v), rule), joined)
    words = "heads were joined by a reshape alone: [h, n, e] to [n, h * e] without moving the axis"
    yield attending(words, lambda: (q, k, v, rule), joined)
    words = "the output's rows and heads were reshaped, [n, h, e] to [h, n, e], where they must be transposed"
    yield attending(words, lambda: (q, k, v, rule), _recut)


def _recut(x: np.ndarray) -> np.ndarray:
    return np.asarray(join_heads(x).reshape(x.shape))


def axis_mistakes(problem: Problem) -> Iterator[Mistake]:
    """Wrong implementations: the softmax over queries or heads, the mask applied after it, masked scores set to 0."""
    rule = problem.rule
    if not rule.softmax:
        return
    words = "the softmax runs over the queries instead of the keys"
    yield problem.mixed(words, lambda: _softmax_over(problem.right.scores, -2))
    if len(problem.q) > 1:
        words = "the softmax runs over the heads instead of the keys"
        yield problem.mixed(words, lambda: _softmax_over(problem.right.scores, 0))
    if not isinstance(rule.mask, Open):
        words = "the mask was applied after the softmax: rows no longer add to 1"
        yield problem.mixed(words, lambda: _masked_after(problem))
        yield problem.mixed("blocked scores were set to 0 instead of -inf", lambda: _masked_to_0(problem))


def _masked_after(problem: Problem) -> np.ndarray:
    unmasked = softmax(scores(problem.q, problem.k, replace(problem.rule, mask=Open())), problem.rule.sink)
    return np.where(np.isneginf(problem.right.scores), 0, unmasked)


def _masked_to_0(problem: Problem) -> np.ndarray:
    right = problem.right.scores
    return np.asarray(softmax(np.where(np.isneginf(right), 0, unnormalised(right)), problem.rule.sink))


def _softmax_over(all_scores: np.ndarray, axis: int) -> np.ndarray:
    moved = np.moveaxis(all_scores, axis, -1)
    shaped = softmax(moved.reshape(1, -1, moved.shape[-1])).reshape(moved.shape)
    return np.moveaxis(shaped, -1, axis)


_PRECISIONS = (PRECISIONS["bfloat16"], PRECISIONS["float16"])
_TILES = (1, 16, 32, 64, 128)  # keys that are added at once
_KEPT = {"": (True, True), " of the output": (True, False), " of the softmax": (False, True)}


def sum_mistakes(problem: Problem) -> Iterator[Mistake]:
    """Wrong implementations that keep sums in 16 bits while tiles of keys are added."""
    m = problem.k.shape[-2]
    if not problem.rule.softmax or problem.rule.sink is not None:
        return
    for precision, tile, online in product(_PRECISIONS, _TILES, (False, True)):
        if tile < m:
            for which, kept in _KEPT.items():
                words = f"the sums{which} were kept in {precision.name}, they need float32"
                output = partial(_added, problem, precision, tile, online=online, kept=kept)
                yield Mistake(words, partial(_made, problem, output))


def _made(problem: Problem, output: Callable[[], np.ndarray]) -> Made:
    return Made(problem.right.weights, output())


def _added(problem: Problem, precision: Precision, tile: int, *, online: bool, kept: tuple[bool, bool]) -> np.ndarray:
    scores, values = problem.right.scores, problem.values
    rounded = [precision.rounded if is_kept else np.asarray for is_kept in kept]
    output = np.zeros(problem.right.output.shape)
    total = np.zeros((*scores.shape[:-1], 1))
    top = np.full(total.shape, -np.inf) if online else scores.max(axis=-1, keepdims=True)
    for start in range(0, scores.shape[-1], tile):
        part = scores[..., start : start + tile]
        rising = np.maximum(top, part.max(axis=-1, keepdims=True)) if online else top
        shift = np.where(np.isfinite(rising), rising, 0.0)
        begun = np.isfinite(top)
        fading = np.where(begun, np.exp(np.where(begun, top, shift) - shift), 0.0)
        powers = np.exp(part - shift)
        output = rounded[0](output * fading + powers @ values[..., start : start + tile, :])
        total = rounded[1](total * fading + powers.sum(axis=-1, keepdims=True))
        top = rising
    return np.asarray(output / np.where(total > 0, total, 1.0))


def key_mistakes(problem: Problem) -> Iterator[Mistake]:
    """Wrong implementations: k reshaped, not transposed; k or v shifted by one place; k and v in each other's place."""
    q, k, v, rule = problem.q, problem.k, problem.v, problem.rule
    m, d = k.shape[-2:]
    if min(m, d) > 1:
        words = "k was reshaped where it must be transposed"
        yield attending(words, lambda: (q, k.reshape(len(k), d, m).swapaxes(-1, -2), v, rule))
    if m > 1:
        for step, words in (
            (1, "one place too late: key j holds key j - 1"),
            (-1, "one place too early: key j holds key j + 1"),
        ):
            yield attending(f"keys stand {words}", partial(lambda by: (q, np.roll(k, by, -2), v, rule), step))
            words = f"values stand {words.replace('key', 'value')}"
            yield attending(words, partial(lambda by: (q, k, np.roll(v, by, -2), rule), step))
    if k.shape == v.shape and not np.array_equal(k, v):
        yield attended("k was used in place of v", q, k, k, rule)
        yield attended("v was used in place of k", q, v, v, rule)
        yield attended("k and v are in each other's place", q, v, k, rule)


_FAINT = -40.0  # a masked score below it shows in rows alone in which all keys are masked, whatever it is


class Fitted(NamedTuple):
    """A wrong implementation (`at`) with an unknown number in it, such as another scale, and the numbers to try."""

    name: str
    at: Callable[[float], Mistake]
    grid: np.ndarray


def fitted_mistakes(problem: Problem) -> Iterator[Fitted]:
    """The wrong implementations with an unknown number in them that this attention allows, with the numbers to try."""
    rule = problem.rule
    if not rule.softmax:
        return
    if rule.scale > 0:
        yield Fitted(
            "scale",
            lambda scale: problem.attended(_scale_words(scale, rule.scale), replace(rule, scale=scale)),
            rule.scale * 2.0 ** np.arange(-5, 5.25, 0.25),
        )
    if rule.sink is None:
        denominator = _Denominator(problem)
        for name in ("subtracted", "whole", "weights"):
            yield Fitted(f"epsilon-{name}", getattr(denominator, name), 10.0 ** np.arange(-12, 1.5, 0.5))
    if isinstance(rule.bias, np.ndarray) and rule.bias.any():
        grid = 2.0 ** np.arange(-4, 4.25, 0.25)
        yield Fitted("bias-times", partial(_bias_times, problem, rule.bias), np.concatenate([-grid[::-1], grid]))
    if not isinstance(rule.mask, Open) and rule.sink is None:
        leak = _Leak(problem)
        yield Fitted("mask-set", leak.set_to, np.arange(-44.0, 9.0))
        yield Fitted("mask-added", leak.lowered_by, np.arange(-44.0, 9.0))


def _bias_times(problem: Problem, bias: np.ndarray, factor: float) -> Mistake:
    rule = replace(problem.rule, bias=bias * factor)
    return problem.attended(f"the bias is {factor:.3g} times the one that was asked for", rule)


class _Denominator:
    """The weights of a softmax with an epsilon in its denominator."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        top = problem.right.scores.max(axis=-1, keepdims=True)
        self.top = np.where(np.isfinite(top), top, 0.0)
        self.powers = np.exp(problem.right.scores - self.top)
        self.total = self.powers.sum(axis=-1, keepdims=True)

    def subtracted(self, epsilon: float) -> Mistake:
        return self._mixed(f"an epsilon of {epsilon:.3g} is added to the softmax's sum", epsilon)

    def whole(self, epsilon: float) -> Mistake:
        words = f"{epsilon:.3g} is added to the softmax's sum before the maximum is subtracted"
        return self._mixed(words, epsilon * np.exp(-self.top))

    def weights(self, epsilon: float) -> Mistake:
        return self._mixed(f"weights are divided by their sum and an epsilon of {epsilon:.3g}", epsilon * self.total)

    def _mixed(self, words: str, added: float | np.ndarray) -> Mistake:
        return self.problem.mixed(words, lambda: self.powers / (self.total + added))


def _scale_words(scale: float, right: float) -> str:
    root = 1 / scale**2
    near = f" = 1/sqrt({root:.0f})" if abs(root - round(root)) < 1e-3 * root and root > 1.5 else ""
    return f"the scale is {scale:.4g}{near}, {right:.4g} was asked for"


class _Leak:
    """The weights of a mask that is a finite number: masked keys keep a little weight."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.right = problem.right.scores
        self.masked = np.isneginf(self.right)
        self.open = scores(problem.q, problem.k, replace(problem.rule, mask=Open()))

    def set_to(self, number: float) -> Mistake:
        words = f"masked scores were set to {_round(number)} instead of -inf: masked keys keep weight"
        return self._mixed(words, np.where(self.masked, number, self.right))

    def lowered_by(self, number: float) -> Mistake:
        words = f"{_round(number)} was added to masked scores instead of -inf: masked keys keep weight"
        return self._mixed(words, np.where(self.masked, self.open + number, self.right))

    def _mixed(self, words: str, wrong: np.ndarray) -> Mistake:
        return self.problem.mixed(words, lambda: np.asarray(softmax(wrong)))


def _round(number: float) -> str:
    if number < _FAINT:
        return "a finite number such as -1e4"
    near = round(number)
    return f"{near}" if abs(number - near) < 0.02 else f"{number:.3g}"


_KERNELS = (tile_mistakes, tile_mask_mistakes, softmax_mistakes, operand_mistakes, changed_operand_mistakes)


def mistakes(problem: Problem) -> Iterator[Mistake]:
    """The usual mistakes of implementations of this attention, the more usual families first."""
    for family in (rule_mistakes, axis_mistakes, head_mistakes, key_mistakes, rotary_mistakes, *_KERNELS):
        yield from family(problem)
