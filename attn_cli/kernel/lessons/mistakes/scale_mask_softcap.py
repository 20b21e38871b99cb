"""Another scale, another mask, another softcap, two of them at once, or something left out."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np

from attn_cli.kernel.definition.mask import Intervals, Mask, dense, intervals
from attn_cli.kernel.definition.masks import Causal, Given, Intersection, Keys, Open, Prefix, Window, all_of
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.lessons.mistakes.problem import Mistake, Problem, attended

_AT_ONCE = 2  # mistakes in a rule that are tried together
_LATE = 8  # rows by which the first number that is clearly wrong may come after the first wrong one
_USUAL_CAPS = (50.0, 30.0, 20.0)  # of scores, in models and in kernels' tests


class _Change(NamedTuple):
    words: str
    scale: float | None = None
    mask: Mask | None = None
    softcap: float | None = None


def rule_mistakes(problem: Problem) -> Iterator[Mistake]:
    """Wrong implementations of how scores become weights: scale, mask or softcap wrong, one or two at once."""
    rule = problem.rule
    for scale, mask, cap in product(_scales(problem), _masks(problem), _softcaps(rule)):
        wrong = [change for change in (scale, mask, cap) if change.words]
        if 0 < len(wrong) <= _AT_ONCE:
            assert scale.scale is not None and mask.mask is not None
            words = "; and ".join(change.words for change in wrong)
            yield problem.attended(words, replace(rule, scale=scale.scale, mask=mask.mask, softcap=cap.softcap))
            if wrong == [mask]:
                yield from _without_keys(problem, mask)
    yield from _other_windows(problem)
    if rule.softcap is None:
        for usual in _USUAL_CAPS:
            words = f"a softcap of {usual:g} was applied without being requested"
            yield problem.attended(words, replace(rule, softcap=usual))
    if rule.bias is not None:
        yield problem.attended("the bias is missing", replace(rule, bias=None))
    if rule.sink is not None:
        yield problem.attended("the sink is missing from the softmax", replace(rule, sink=None))
    if rule.softmax:
        yield problem.attended("the softmax is missing", replace(rule, softmax=False, sink=None))


def _without_keys(problem: Problem, change: _Change) -> Iterator[Mistake]:
    """A wrong mask under which rows that see nothing aren't NaN: they attend to all keys alike, or are put right."""
    rule, n, m = problem.rule, problem.q.shape[-2], problem.k.shape[-2]
    seen = None if change.mask is None else intervals(change.mask, n, m)
    right = intervals(rule.mask, n, m)
    if seen is None or rule.bias is not None or rule.sink is not None or not rule.softmax:
        return
    dead = seen.first >= seen.last
    if not dead.any():
        return
    opened = Intervals(np.where(dead, 0, seen.first), np.where(dead, m, seen.last))
    words = f"{change.words}; a row that it leaves no key spreads over all: masked scores are finite, such as -1e9"
    q = np.where(dead[:, None], 0.0, problem.q)
    yield attended(words, q, problem.k, problem.v, replace(rule, mask=opened))
    if right is not None:
        kept = Intervals(np.where(dead, right.first, seen.first), np.where(dead, right.last, seen.last))
        words = f"{change.words}; a row that this leaves without any key is as it should be"
        yield problem.attended(words, replace(rule, mask=kept))


def _scales(problem: Problem) -> Iterator[_Change]:
    scale, d, width = problem.rule.scale, problem.q.shape[-1], problem.width
    yield _Change("", scale)
    if scale != 1:
        yield _Change(f"the scale is missing: q kᵀ was not multiplied by {scale:.4g}", 1.0)
        words = (
            f"the scale was applied twice, or is 1/d instead of 1/sqrt(d): {scale * scale:.4g} in place of {scale:.4g}"
        )
        yield _Change(words, scale * scale)
        yield _Change(f"q kᵀ was divided by {scale:.4g} instead of multiplied", 1 / scale)
    if abs(scale - d**-0.5) > 1e-9:
        yield _Change(f"the scale is 1/sqrt(d) = {d**-0.5:.4g}, {scale:.4g} was asked for", d**-0.5)
    if width != d and abs(scale - width**-0.5) > 1e-9:
        words = f"the scale is 1/sqrt({width}) = {width**-0.5:.4g}, of the model's width, not of a head's: {scale:.4g}"
        yield _Change(words, width**-0.5)


def _softcaps(rule: Rule) -> Iterator[_Change]:
    yield _Change("", softcap=rule.softcap)
    if rule.softcap is not None:
        yield _Change("the softcap is missing")
        if rule.scale > 0 and rule.scale != 1:  # c tanh(x / c) s is (c s) tanh(x s / (c s))
            words = "the softcap was applied before the scale, it comes after it"
            yield _Change(words, softcap=rule.softcap * rule.scale)


def _masks(problem: Problem) -> Iterator[_Change]:
    mask, n, m = problem.rule.mask, problem.q.shape[-2], problem.k.shape[-2]
    yield _Change("", mask=mask)
    parts = mask.masks if isinstance(mask, Intersection) else (mask,)
    if not isinstance(mask, Open):
        yield _Change(f"the mask is missing ({mask})", mask=Open())
    for part in parts:
        rest = [other for other in parts if other is not part]
        if isinstance(part, Causal):
            yield from _diagonals(part, rest, n, m)
        if isinstance(part, Window):
            yield from _windows(part, rest, m - n)
        if isinstance(part, Given):
            words = "the mask is inverted: 1 was taken as blocked"
            yield _Change(words, mask=all_of(Given(~part.cells), *rest))
            if n == m:
                words = "the mask is transposed: its rows are queries"
                yield _Change(words, mask=all_of(Given(part.cells.swapaxes(-1, -2)), *rest))
        if isinstance(part, Prefix):
            yield _Change("the prefix is masked causally too", mask=all_of(Causal(part.offset), *rest))
        if isinstance(part, Keys):
            yield from _lengths(part, rest)
    if not any(isinstance(part, Causal | Prefix) for part in parts):
        yield _Change("a causal mask was applied without being requested", mask=all_of(Causal(), mask))
        if n != m:
            words = "a causal mask (bottom-right) was applied without being requested"
            yield _Change(words, mask=all_of(Causal(m - n), mask))


def _lengths(keys: Keys, rest: list[Mask]) -> Iterator[_Change]:
    real = np.asarray(keys.real)
    for words, other in (
        ("is inverted: padding alone is seen", ~real),
        ("is that of padding on the other side", real[::-1]),
        ("takes one key of padding in", real | np.roll(real, 1)),
        ("leaves the last real key out", real & np.roll(real, -1)),
    ):
        if (other != real).any():
            yield _Change(f"the mask of padding {words}", mask=all_of(Keys(other), *rest))


def _other_windows(problem: Problem) -> Iterator[Mistake]:
    """Windows of other sizes than was asked for, or where none was, by the first row that is wrong."""
    mask, n, m = problem.rule.mask, problem.q.shape[-2], problem.k.shape[-2]
    if problem.wrong is None or not problem.wrong.any():
        return
    parts = mask.masks if isinstance(mask, Intersection) else (mask,)
    own = next((part for part in parts if isinstance(part, Window)), None)
    offset = next((part.offset for part in parts if isinstance(part, Causal | Window)), m - n)
    first = int(problem.wrong.argmax()) + offset
    sizes = {2**power for power in range(1, 15)} | {first - late for late in range(_LATE)}
    rest = [part for part in parts if part is not own]
    sizes |= set() if own is None else {own.size // 2, own.size // 2 + 1, 2 * own.size - 1, 2 * own.size}
    for size in sorted(size for size in sizes if 0 < size < m):
        window = Window(size, offset, own.both_sides if own else not any(isinstance(p, Causal) for p in parts))
        other = all_of(*rest, window)
        if not problem.may_be((dense(other, n, m, like=problem.q) != dense(mask, n, m, like=problem.q)).any(axis=-1)):
            continue
        words = f"a window of {size} keys was applied without being requested"
        words = words if own is None else f"the window is {size} keys wide, {own.size} were asked for"
        yield problem.attended(words, replace(problem.rule, mask=other))


def _diagonals(causal: Causal, rest: list[Mask], n: int, m: int) -> Iterator[_Change]:
    sides = {0: "first query with the first key", m - n: "last query with the last key"}
    for offset, side in sides.items():
        if offset != causal.offset:
            yield _Change(f"the causal mask is aligned the other way: {side}", mask=all_of(Causal(offset), *rest))
    offset = causal.offset
    for words, other in (
        ("blocks the diagonal too (j < i instead of j <= i)", Causal(offset - 1)),
        ("lets every query see one key ahead", Causal(offset + 1)),
        ("is transposed: a query sees itself and what follows (j >= i, triu for tril)", Window(1, offset)),
        ("is inverted: a query sees what follows alone (j > i, 1 was taken as blocked)", Window(1, offset + 1)),
    ):
        yield _Change(f"the causal mask {words}", mask=all_of(other, *rest))
    if rest:
        yield _Change(f"only the causal mask was applied, not {all_of(*rest)}", mask=causal)
        words = f"the causal mask lets every query see one key ahead, and {all_of(*rest)} was not applied"
        yield _Change(words, mask=Causal(causal.offset + 1))
        yield _Change("the causal mask is missing", mask=all_of(*rest))


def _windows(window: Window, rest: list[Mask], past: int) -> Iterator[_Change]:
    for offset in {0, past} - {window.offset}:
        words = f"the window is aligned the other way: query 0 stands at key {offset}, not {window.offset}"
        other = Window(window.size, offset, window.both_sides)
        yield _Change(words, mask=all_of(other, *rest))
    wider = Window(window.size + 1, window.offset, window.both_sides)
    yield _Change("the window is one key too wide", mask=all_of(wider, *rest))
    if window.size > 1:
        narrower = Window(window.size - 1, window.offset, window.both_sides)
        yield _Change("the window is one key too narrow", mask=all_of(narrower, *rest))
