"""Mistakes from q kᵀ to the weights: another scale, mask, softcap or bias, or a softmax of another form."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from attn_cli.kernel.definition.bias import alibi_slopes
from attn_cli.kernel.definition.dense import attend, scores
from attn_cli.kernel.definition.mask import Mask, all_of, causal, dense, given_mask, padding, window
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.definition.softmax import softmax, unnormalised
from attn_cli.kernel.lessons.mistakes.problem import Mistake, Problem
from attn_cli.text import counted

_LATE = 8  # rows by which the first number that is clearly wrong may come after the first wrong one
_USUAL_CAPS = (50.0, 30.0, 20.0)  # of scores, in models and in kernels' tests
_EPSILONS = 10.0 ** np.arange(-8, 1)


_Change = tuple[str, Any]  # a mistake in words, "" for none, and what stands in place of the right one


def rule_mistakes(problem: Problem) -> Iterator[Mistake]:
    """Scale, mask or softcap wrong, one of them or two at once; bias, sink or softmax left out."""
    rule = problem.rule
    right = (("", x) for x in (rule.scale, rule.mask, rule.softcap))
    changes = (_scales(problem), usual_masks(problem), _softcaps(rule))
    for scale, mask, cap in product(*([own, *others] for own, others in zip(right, changes, strict=True))):
        wrong = [words for words, _ in (scale, mask, cap) if words]
        if 0 < len(wrong) < 3:
            other = replace(rule, scale=scale[1], mask=mask[1], softcap=cap[1])
            yield problem.by_rule("; and ".join(wrong), other)
            if wrong == [mask[0]]:
                words = f"{mask[0]}; rows that see no key attend to all alike"
                yield problem.by_weights(words, partial(_even_where_masked, problem, other))
    for words, other_mask in (*_windows_of_other_sizes(problem), *_masks_in_tiles(problem)):
        yield problem.by_rule(words, replace(rule, mask=other_mask))
    for usual in _USUAL_CAPS if rule.softcap is None else ():
        words = f"a softcap of {usual:g} was applied without being requested"
        yield problem.by_rule(words, replace(rule, softcap=usual))
    if rule.bias is not None:
        yield problem.by_rule("the bias is missing", replace(rule, bias=None))
    if isinstance(rule.bias, np.ndarray):
        for words, bias in (
            ("the bias has the wrong sign", -rule.bias),
            ("the bias was added before the scale, it comes after it", rule.bias * rule.scale),
            ("the bias is transposed: its rows are queries", rule.bias.swapaxes(-1, -2)),
        ):
            if bias.shape == rule.bias.shape:
                yield problem.by_rule(words, replace(rule, bias=bias))
        yield from (problem.by_rule(words, replace(rule, bias=bias)) for words, bias in _slopes_of_others(rule.bias))
    if rule.sink is not None:
        yield problem.by_rule("the sink is missing from the softmax", replace(rule, sink=None))
    if rule.softmax:
        yield problem.by_rule("the softmax is missing", replace(rule, softmax=False, sink=None))


def _slopes_of_others(bias: np.ndarray) -> Iterator[_Change]:
    h, slopes = len(bias), np.abs(np.where(bias, bias, np.inf)).min(axis=(-1, -2), keepdims=True)  # of ALiBi
    distances = bias / slopes
    if np.isfinite(slopes).all() and np.allclose(distances, distances[:1]) and (bias <= 0).all():
        for heads in dict.fromkeys((h, 2 * h, 4 * h, 8 * h, 16 * h)):
            other = np.array(alibi_slopes(heads)[:h])[:, None, None]
            if not np.allclose(other, slopes):
                yield f"the slopes of ALiBi are those of {counted(heads, 'head')}", other * distances


def _even_where_masked(problem: Problem, rule: Rule) -> np.ndarray:
    weights = np.asarray(attend(problem.q, problem.k, problem.v, rule).weights)
    return np.where(weights.any(axis=-1, keepdims=True), weights, 1 / weights.shape[-1])  # as of scores of -1e9


def softmax_mistakes(problem: Problem) -> Iterator[Mistake]:
    """A softmax along another axis, of base 2, not divided, with an epsilon; the mask after it, or of zeros."""
    rule, right = problem.rule, problem.right.scores
    if not rule.softmax:
        return
    yield problem.by_weights("the softmax runs over the queries instead of the keys", partial(_along, right, -2))
    if len(right) > 1:
        yield problem.by_weights("the softmax runs over the heads instead of the keys", partial(_along, right, 0))
    for words, by in (
        ("2^score was taken for e^score: exp2 needs log2(e) in the scale", np.log(2)),
        ("log2(e) is in the scale, as exp2 needs it, and e^score was taken", 1 / np.log(2)),
    ):
        yield problem.by_weights(words, partial(softmax, right * by, None if rule.sink is None else rule.sink * by))
    masked = np.isneginf(right)
    for under, cells in (("", False), (", under the mask", masked))[: 1 + bool(masked.any())]:
        words = f"the softmax was applied twice, to the weights too{under}"
        yield problem.by_weights(words, partial(softmax, np.where(cells, -np.inf, problem.right.weights)))
    if not rule.mask.is_open:
        opened = scores(problem.q, problem.k, replace(rule, mask=Mask()))
        words = "the mask was applied after the softmax: rows no longer add to 1"
        yield problem.by_weights(words, lambda: np.where(masked, 0, softmax(opened, rule.sink)))
        words = "blocked scores were set to 0 instead of -inf"
        yield problem.by_weights(words, lambda: np.asarray(softmax(unnormalised(right), rule.sink)))
    if rule.sink is None:
        top = np.where(np.isfinite(right).any(axis=-1, keepdims=True), right.max(axis=-1, keepdims=True), 0.0)
        powers = np.exp(right - top)
        total = powers.sum(axis=-1, keepdims=True)
        yield problem.by_weights("weights are not divided by their sum: they are e^(score - maximum)", lambda: powers)
        for epsilon in _EPSILONS.tolist():
            words = f"an epsilon of {epsilon:g} is added to the softmax's sum"
            yield problem.by_weights(words, partial(np.divide, powers, total + epsilon))
            words = f"{epsilon:g} is added to the softmax's sum before the maximum is subtracted"
            words += ": a key of zeros is not masked, perhaps" * (epsilon == 1)
            yield problem.by_weights(words, partial(np.divide, powers, total + epsilon * np.exp(-top)))


def _along(right: np.ndarray, axis: int) -> np.ndarray:
    moved = np.moveaxis(right, axis, -1)
    return np.moveaxis(softmax(moved.reshape(1, -1, moved.shape[-1])).reshape(moved.shape), -1, axis)


def _scales(problem: Problem) -> Iterator[_Change]:
    scale, d, width = problem.rule.scale, problem.q.shape[-1], problem.width
    if scale != 1:
        yield f"the scale is missing: q kᵀ was not multiplied by {scale:.4g}", 1.0
        words = f"applied twice, or is 1/d instead of 1/sqrt(d): {scale * scale:.4g} in place of {scale:.4g}"
        yield f"the scale was {words}", scale * scale
        yield f"q kᵀ was divided by {scale:.4g} instead of multiplied", 1 / scale
    if abs(scale - d**-0.5) > 1e-9:
        yield f"the scale is 1/sqrt(d) = {d**-0.5:.4g}, {scale:.4g} was asked for", d**-0.5
    if width != d and abs(scale - width**-0.5) > 1e-9:
        words = f"the scale is 1/sqrt({width}) = {width**-0.5:.4g}, of the model's width, not of a head's: {scale:.4g}"
        yield words, width**-0.5


def _softcaps(rule: Rule) -> Iterator[_Change]:
    if rule.softcap is not None:
        yield "the softcap is missing", None
        if rule.scale > 0 and rule.scale != 1:  # c tanh(x / c) s is (c s) tanh(x s / (c s))
            yield "the softcap was applied before the scale, it comes after it", rule.softcap * rule.scale


def usual_masks(problem: Problem) -> Iterator[_Change]:
    """The masks that are taken for the right one, each with what is wrong."""
    mask, n, m = problem.rule.mask, problem.q.shape[-2], problem.k.shape[-2]
    parts = mask.parts or (mask,)
    if not mask.is_open:
        yield f"the mask is missing ({mask})", Mask()
    last = "last query with the last key, as --mask causal-bottom-right has it"
    for offset, side in ((0, "first query with the first key"), (m - n, last)):
        for at in dict.fromkeys([*((part,) for part in parts), parts]):
            moved = [_aligned(part, offset) if part in at else part for part in parts]
            if [part.numbers for part in moved] != [part.numbers for part in parts]:
                name = " with its ".join(_ALIGNED[part.kind] for part in at if part.kind in _ALIGNED)
                yield f"the {name} is aligned the other way: {side}", all_of(*moved)
    for part in parts:
        rest = [other for other in parts if other is not part]
        yield from ((words, all_of(other, *rest)) for words, other in _others(part, n == m))
        if part.kind == "causal" and rest:
            yield f"only the causal mask was applied, not {all_of(*rest)}", part
            yield "the causal mask is missing", all_of(*rest)
    if not any(part.kind in ("causal", "prefix") for part in parts):
        for offset, side in {m - n: " (bottom-right)", 0: ""}.items():
            yield f"a causal mask{side} was applied without being requested", all_of(causal(offset), mask)


_ALIGNED = {"causal": "causal mask", "window": "window"}


def _aligned(part: Mask, offset: int) -> Mask:
    if part.kind == "causal":
        return causal(offset)
    return window(part.numbers[0], offset, both_sides=part.after is not None) if part.kind == "window" else part


def _others(part: Mask, is_square: bool) -> Iterator[tuple[str, Mask]]:
    """The masks that are usually taken for one."""
    if part.kind == "causal":
        (offset,) = part.numbers
        yield "the causal mask blocks the diagonal too (j < i instead of j <= i)", causal(offset - 1)
        yield "the causal mask lets every query see one key ahead", causal(offset + 1)
        words = "the causal mask is transposed: a query sees itself and what follows (j >= i, triu for tril)"
        yield words, window(1, offset)
        words = "the causal mask is inverted: a query sees what follows alone (j > i, 1 was taken as blocked)"
        yield words, window(1, offset + 1)
    if part.kind == "window":
        (size, own), like = part.numbers, partial(window, both_sides=part.after is not None)
        yield "the window is one key too wide", like(size + 1, own)
        if size > 1:
            yield "the window is one key too narrow", like(size - 1, own)
    if part.cells is not None and not callable(part.cells):
        yield "the mask is inverted: 1 was taken as blocked", given_mask(~part.cells)
        if is_square:
            yield "the mask is transposed: its rows are queries", given_mask(part.cells.swapaxes(-1, -2))
    if part.kind == "prefix":
        yield "the prefix is masked causally too", causal(part.numbers[1])
    if part.keys is not None:
        real = np.asarray(part.keys)
        for words, keys in (
            ("is inverted: padding alone is seen", ~real),
            ("is that of padding on the other side", real[::-1]),
            ("takes one key of padding in", real | np.roll(real, 1)),
            ("leaves the last real key out", real & np.roll(real, -1)),
        ):
            if (keys != real).any():
                yield f"the mask of padding {words}", padding(keys)


def _windows_of_other_sizes(problem: Problem) -> Iterator[tuple[str, Mask]]:
    """Windows of other sizes than was asked for, or where none was, by the first row that is wrong."""
    n, m, parts = problem.q.shape[-2], problem.k.shape[-2], problem.rule.mask.parts or (problem.rule.mask,)
    if not problem.wrong.any():
        return
    own = next((part for part in parts if part.kind == "window"), None)
    offset = next((part.numbers[-1] for part in parts if part.kind in ("causal", "window")), m - n)
    asked = 0 if own is None else own.numbers[0]
    is_causal = any(part.kind == "causal" for part in parts)
    first = int(problem.wrong.argmax()) + offset
    sizes = {2**power for power in range(1, 15)} | {first - late for late in range(_LATE)}
    sizes |= set() if own is None else {asked // 2, asked // 2 + 1, 2 * asked - 1, 2 * asked}
    rest = [part for part in parts if part is not own]
    for size in sorted(size for size in sizes if 0 < size < m):
        other = window(size, offset, both_sides=own.after is not None if own else not is_causal)
        words = f"a window of {size} keys was applied without being requested"
        words = words if own is None else f"the window is {size} keys wide, {asked} were asked for"
        if _may_be(problem, mask := all_of(*rest, other)):
            yield words, mask


def _may_be(problem: Problem, mask: Mask) -> bool:
    n, m = problem.q.shape[-2], problem.k.shape[-2]
    cells = (dense(each, n, m, like=problem.q) for each in (mask, problem.rule.mask))
    return problem.may_be((next(cells) != next(cells)).any(axis=-1))


_TILES = (4, 8, 16, 32, 64, 128, 256)  # keys of a tile in usual kernels, and in those for small matrices
_MOST_TILES = 128


def tiles_of(m: int) -> list[int]:
    """How many keys a tile may have where there are m keys."""
    return [tile for tile in _TILES if tile < m <= tile * _MOST_TILES]


def _masks_in_tiles(problem: Problem) -> Iterator[tuple[str, Mask]]:
    """Causal masks that go wrong where keys are walked through in tiles: at an edge, or from the second tile on."""
    n, m, parts = problem.q.shape[-2], problem.k.shape[-2], problem.rule.mask.parts or (problem.rule.mask,)
    right = next((part for part in parts if part.kind == "causal"), None)
    if right is None:
        return
    rest, (offset,) = [part for part in parts if part is not right], right.numbers
    i, j = np.arange(n)[:, None], np.arange(m)[None]
    own, before = i + offset, "the causal mask"
    for tile in tiles_of(m):
        end, later = own // tile * tile + tile, f"from the second tile of {tile}"
        diagonal, off_by_one = f"the tile of {tile} keys on the diagonal", f"{before} is off by one"
        ahead = "a query sees one key ahead"
        wrong = {
            f"the tile on the diagonal is not masked: rows see all its {tile} keys": j < end,
            f"{later} keys on, the tile on the diagonal is not masked": np.where(own < tile, j <= own, j < end),
            f"{off_by_one} within a tile of {tile}: {ahead}, if that is in its tile": (j <= own + 1) & (j < end),
            f"{off_by_one} {later} on: it blocks the diagonal too (j < i instead of j <= i)": j <= own - (own >= tile),
            f"{off_by_one} {later} queries on: {ahead}": j <= own + (own >= tile),
            f"{off_by_one} {later} keys on: {ahead}": j <= own + (j >= tile),
            f"{before} compares places within tiles of {tile}, without where the tiles begin": (
                (j % tile <= own % tile) & (j < end)
            ),
            f"{before} of every tile of {tile} queries is that of the first": j <= i % tile + offset,
            f"queries see the keys of their own tile of {tile} alone": (j <= own) & (j >= end - tile),
            f"{diagonal} is skipped": j < end - tile,
        }
        for words, cells in wrong.items():
            if _may_be(problem, mask := all_of(given_mask(cells), *rest)):
                yield words, mask
