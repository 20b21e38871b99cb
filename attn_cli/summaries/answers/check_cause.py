"""The cause of wrong numbers: a mistake of the register, the rounding of a lower precision, or neither."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, combinations
from typing import Any

import numpy as np

from attn_cli.kernel.definition.dense import Attention, attend, scores
from attn_cli.kernel.definition.heads import join_heads, split_heads
from attn_cli.kernel.definition.mask import Mask
from attn_cli.kernel.definition.masks import Causal, Intersection, Open, Window, all_of
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.definition.softmax import unnormalised
from attn_cli.kernel.lessons.dropout import dropout_in_output, dropout_rate
from attn_cli.kernel.lessons.mistakes.problem import Mistake, Problem
from attn_cli.kernel.lessons.mistakes.register import Fitted, fitted_mistakes, mistakes, sum_mistakes, why_nan
from attn_cli.kernel.lessons.mistakes.scale_mask_softcap import rule_mistakes
from attn_cli.kernel.lessons.mistakes.tile_masks import tile_mask_mistakes
from attn_cli.kernel.lessons.precision import PRECISIONS
from attn_cli.kernel.lessons.solved_weights import SolvedWeights, solved_weights, weights_in_words
from attn_cli.kernel.lessons.structure import places, structure
from attn_cli.summaries.answers.check_numbers import FAR, Arrays, CheckedNumbers, ErrorSize
from attn_cli.text import listed

_MOST_CELLS = 2**22  # mistakes are tried on this many cells; in a larger matrix, on its first rows
_CLEAR = 10.0  # times its error that a number must have to be none of 0
_FITTING_CELLS = 2**17  # on which the number of a mistake is searched
_NARROWED = 12  # times that the search goes on between the neighbours of the best number
_EQUAL = 1e-13  # two mistakes closer than this are equal; the first in the list, the more usual one, is named
_LIKELY = 4  # times that a mistake must be nearer than what is right, and tolerances that it may be off on the whole
_LEFT = 0.04  # what may then be left, relative to sizes: the rounding of bfloat16
_AS_NEAR = 1.02  # times the least distance, at which a simpler number is as good
_FORETOLD = 0.4  # correlation of errors of rounded sums with those that were foretold, and nearly as large
_SMALL = 0.5  # typical errors, relative to sizes, beyond which nobody thinks of rounding
_SAME_ROUNDING = 2.5  # times the errors of rounding all numbers, that those of a kernel may have
_COARSER = ("float32", "float16", "bfloat16")

Tried = Iterator[tuple[str, Arrays]]
"""Mistakes in words, each with the numbers that it leads to, in the user's layout."""


class CauseSearch:
    """The search for what made the user's numbers wrong."""

    def __init__(self, numbers: CheckedNumbers) -> None:
        self.numbers, self.call, self.tolerance = numbers, numbers.call, numbers.tolerance
        self.bad = next(bad for bad in numbers.bad.values() if bad.any())
        self.rows = self._first_rows(self.call.h * self.call.m)

    def cause(self) -> dict[str, Any]:
        """The first that fits of: NaN, another layout, mistakes, a broken mask, rounding; else where errors are."""
        numbers, picture = self.numbers, places(self.bad)
        for values in numbers.user.values():
            if not np.isfinite(values).all():
                return {"cause": self._why_nan(values) or None, "picture": picture}
        wrong = numbers.distance(numbers.right)
        problem = self._problem(0, self.rows)
        for tried in (chain(self._layouts(), self._made(mistakes(problem))), self._made(self._fitted(problem))):
            best, words = self._nearest(tried)
            if self._explains(best, wrong):
                return {"cause": words, "cause_error": best.worst}
        if broken := self._broken_rule():
            return {"cause": broken}
        if wrong.typical < _SMALL:
            if sums := self._sums():
                return {"cause": sums}
            name, why_not = self._rounding(wrong)
            if name:
                return {"rounding": name}
            if why_not and picture == places(np.ones_like(self.bad)):
                picture += f"; the errors are none of rounding: {why_not}"
        return {"picture": picture}

    def _first_rows(self, numbers: int, most: int = _MOST_CELLS) -> int:
        """The count of rows, of so many numbers each, on which something is tried."""
        return min(self.call.n, max(1, most // numbers))

    def _problem(self, start: int, stop: int) -> Problem:
        call, ingredients = self.call, self.call.ingredients
        width = call.h * call.q.shape[-1] if ingredients.x is None else ingredients.x.shape[-1]
        rotation = ingredients.rotation if ingredients.latent is None else None
        wrong = np.asarray(self.bad.any(axis=(0, 2)))[start:stop]
        rule = call.rule.of_rows(start, stop, call.m)
        return Problem(call.q[:, start:stop], call.k, call.v, rule, width, rotation, wrong=wrong)

    def _arrays(self, made: Mistake | Attention) -> Arrays:
        return {"output": self.numbers.in_user_layout(made.output), "weights": made.weights}

    def _made(self, found: Iterable[Mistake]) -> Tried:
        return ((mistake.words, self._arrays(mistake)) for mistake in found)

    def _nearest(self, tried: Tried, user: Arrays | None = None) -> tuple[ErrorSize, str]:
        best, words = FAR, ""
        for each, made in tried:
            distance = self.numbers.distance(made, user)
            if distance.typical < best.typical - _EQUAL:
                best, words = distance, each
        return best, words

    def _explains(self, off: ErrorSize, wrong: ErrorSize) -> bool:
        if off.worst <= self.tolerance:
            return True
        is_small = off.worst <= _LEFT or off.typical <= _LIKELY * self.tolerance
        return self.numbers.own_tolerance is None and is_small and off.typical * _LIKELY < wrong.typical

    def _why_nan(self, values: np.ndarray) -> str:
        problem, bad = self._problem(0, self.rows), ~np.isfinite(values).all(axis=-1)
        return why_nan(problem.q, problem.k, problem.rule, bad[:, : self.rows]) or self._why_no_key(problem)

    def _why_no_key(self, problem: Problem) -> str:
        """The mistake that leaves no key to exactly the rows that hold NaN, and is right in all others; "" if none."""
        zeroed = {name: np.where(np.isfinite(x), x, 0.0) for name, x in self.numbers.user.items()}
        masks = chain(rule_mistakes(problem), tile_mask_mistakes(problem))
        off, words = self._nearest(self._made(masks), zeroed)
        found = off.worst <= self.tolerance
        return f"{words}; rows that it leaves no key are NaN, the softmax of -inf alone" if found else ""

    def _layouts(self) -> Tried:
        """Errors of layout: axes in another order, rows left at 0, operands of another entry or with rows first."""
        yield from self._transposed()
        call, first = self.call, self.numbers.first
        if call is not first:
            yield "k and v are those of batch entry 0", self._attended(call.q, first.k, first.v, call.rule)
            yield "the mask is that of batch entry 0", self._attended(call.q, call.k, call.v, first.rule)
        if "output" not in self.numbers.user:
            return
        output, right, w_o = self.numbers.user["output"], self.numbers.right["output"], call.ingredients.projection
        if w_o is not None and w_o.shape[0] == w_o.shape[1]:
            joined = join_heads(self._problem(0, self.rows).right.output)[None]
            yield "W_O was not applied: these are the joined heads", {"output": joined}
        if output.shape[1] == output.shape[2] > 1:
            yield "the output is transposed: the array is [e, n]", {"output": right.swapaxes(1, 2)}
        if output.shape[0] == output.shape[1] > 1:
            yield "rows come before heads: the array is [n, h, e]", {"output": right.swapaxes(0, 1)}
        empty = np.asarray(~output.any(axis=(0, 2)) & right.any(axis=(0, 2)))
        if empty.any() and not empty.all():
            rows = np.flatnonzero(empty)
            run = f"rows {rows[0]}-{rows[-1]} are" if len(rows) > 1 else f"row {rows[0]} is"
            named = run if len(rows) == rows[-1] - rows[0] + 1 else f"{len(rows)} rows are"
            unwritten = "the last tile of queries was" if empty[-1] else "they were"
            words = f"{named} 0 in every head: {unwritten} left unwritten"
            yield words, {"output": np.where(empty[:, None], 0.0, right)}
        yield from self._heads_second()

    def _attended(self, q: np.ndarray, k: np.ndarray, v: np.ndarray, rule: Rule) -> Arrays:
        return self._arrays(attend(q[:, : self.rows], k, v, rule.of_rows(0, self.rows, self.call.m)))

    def _transposed(self) -> Tried:
        """Square projections, some of them transposed."""
        call, ingredients = self.call, self.call.ingredients
        square = {
            name: np.asarray(w)
            for name, w in (*ingredients.projections.items(), ("o", ingredients.projection))
            if w is not None and w.shape[0] == w.shape[1] and not np.array_equal(w, w.T)
        }
        for names in (chosen for count in range(len(square)) for chosen in combinations(square, count + 1)):
            q, k, v = (self._projected(x, square[x].T) if x in names else getattr(call, x) for x in "qkv")
            made = attend(q[:, : self.rows], k, v, call.rule.of_rows(0, self.rows, call.m))
            arrays = self._arrays(made)
            if "o" in names:
                arrays["output"] = (join_heads(made.output) @ square["o"].T)[None]
            words = f"{listed(f'w{name}' for name in names)} {'is' if len(names) == 1 else 'are'} transposed: "
            yield words + "nn.Linear keeps its weight as [out, in], here they are [in, out]", arrays

    def _projected(self, name: str, w: np.ndarray) -> np.ndarray:
        call, ingredients = self.call, self.call.ingredients
        x = ingredients.x if name == "q" or ingredients.context is None else ingredients.context
        own = getattr(call, name)
        heads = np.asarray(split_heads(np.asarray(x) @ w, w.shape[1] // own.shape[-1]))
        if len(heads) != len(own):
            heads = heads[list(call.place.heads if name == "q" else call.place.groups)]
        if ingredients.rotation is None or name == "v":
            return heads
        return np.asarray(ingredients.rotation.turn(heads, ingredients.rotation.offset if name == "q" else 0))

    def _heads_second(self) -> Tried:
        """q, k and v with rows before heads, `[batch, n, heads, d]`."""
        call = self.call
        n, h, m, g = call.h, call.n, len(call.k), call.k.shape[-2]
        mask = _mask_of_sizes(call.rule.mask, call.m - call.n, m - n)
        plain = call.rule.bias is None and call.rule.sink is None and call.ingredients.x is None
        if self.numbers.joined or not plain or mask is None or h % g or n == 1 or h == 1:
            return
        rows = min(n, max(1, _MOST_CELLS // (h * m)))
        rule = replace(call.rule, mask=mask).of_rows(0, rows, m)
        q, k, v = call.q[:rows].swapaxes(0, 1), call.k.swapaxes(0, 1), call.v.swapaxes(0, 1)
        words = (
            f"q, k and v come as [batch, n, heads, d] and were read as {n} heads of {h} queries; "
            f"read as {h} heads of {n}, the output is right: save them with heads before rows, x.swapaxes(-3, -2)"
        )
        yield words, {"output": attend(q, k, v, rule).output.swapaxes(0, 1)}  # [rows, h, e], as attn read the output

    def _fitted(self, problem: Problem) -> Iterator[Mistake]:
        """The mistakes with a number in them, each with the number that fits best on the first rows."""
        rows = self._first_rows(len(problem.q) * problem.k.shape[-2], _FITTING_CELLS)
        for whole, fitted in zip(fitted_mistakes(problem), fitted_mistakes(self._problem(0, rows)), strict=True):
            yield whole.at(self._best_number(fitted))

    def _best_number(self, fitted: Fitted) -> float:
        """The best of the grid, of ever finer ones between its neighbours, and of simpler numbers nearby."""

        def off(number: float) -> float:
            return self.numbers.distance(self._arrays(fitted.at(number))).typical

        grid = fitted.grid
        for _ in range(_NARROWED):
            at = int(np.argmin([off(number) for number in grid.tolist()]))
            number = float(grid[at])
            grid = np.linspace(grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)], 9)
        simple = [float(fitted.grid[0]), *(float(f"{number:.{digits}g}") for digits in (1, 2, 3))]
        least = min(map(off, [*simple, number]))
        return next((each for each in simple if off(each) <= _AS_NEAR * least + _EQUAL), number)

    def _broken_rule(self) -> str:
        """What the user's weights leave out or take in, where these are given or follow from the output; "" if not."""
        call, given, right = self.call, self.numbers.user.get("weights"), self.numbers.right
        if self.rows < call.n:
            return ""
        problem, tolerance = self._problem(0, call.n), self.tolerance
        weights = problem.right.weights
        behind = self.numbers.of_heads()
        solved: SolvedWeights | None = None
        if given is not None and (np.abs(given - weights) > tolerance).any():
            solved = SolvedWeights(given, tolerance)
            told = weights > tolerance * weights.max(axis=-1, keepdims=True)
            p = dropout_rate(given, weights, tolerance * weights, told)
        elif behind is not None:
            output, sizes = behind
            solved = solved_weights(output, problem.values, weights, sizes, tolerance)
            p = None if solved is None else solved.dropout(weights)
            p = p or dropout_in_output(output, problem.values, weights, sizes, tolerance)
        else:
            return ""
        if p:
            return f"dropout was left on, p about {p:.2g}: some weights are 0, the others divided by 1 - p"
        if "output" in right:
            error = tolerance * self.numbers.sizes["output"]
            told = np.abs(right["output"]) > _CLEAR * error
            if p := dropout_rate(self.numbers.user["output"], right["output"], error, told):
                return f"dropout was left on for the output, p about {p:.2g}: some numbers are 0"
        return "" if solved is None else weights_in_words(solved, weights, _own_key(call.rule.mask, call.m - call.n))

    def _sums(self) -> str:
        """The words for sums kept in a low precision, "" if none were; tried on the last rows, which see most keys."""
        call = self.call
        if "output" not in self.numbers.user:
            return ""
        start = call.n - self._first_rows(call.h * call.m * call.e)
        user, right, sizes = (
            x["output"][:, start:] for x in (self.numbers.user, self.numbers.right, self.numbers.sizes)
        )
        errors = (user - right) / sizes
        best, words = _FORETOLD, ""
        for mistake in sum_mistakes(self._problem(start, call.n)):
            foretold = (self.numbers.in_user_layout(mistake.output) - right) / sizes
            alike, squares = float((errors * foretold).sum()), float((foretold**2).sum())
            correlation = alike / max(float(np.sqrt((errors**2).sum() * squares)), 1e-300)
            if correlation > best and abs(alike / squares - 1) < _FORETOLD:
                best, words = correlation, mistake.words
        return words

    def _rounding(self, wrong: ErrorSize) -> tuple[str, str]:
        """The precision whose rounding the errors are, or "" and what tells them from it."""
        right, first = self.numbers.right, slice(self.rows)
        errors = {what: x - right[what] for what, x in self.numbers.user.items()}
        for name in _COARSER:
            precision, is_last = PRECISIONS[name], name == _COARSER[-1]
            if precision.tolerance <= self.tolerance or (wrong.worst > precision.tolerance and not is_last):
                continue
            rounding = {what: x - right[what] for what, x in self.numbers.rounded(precision).items()}
            is_small = wrong.worst <= precision.tolerance and all(
                np.mean(errors[what] ** 2) <= _SAME_ROUNDING**2 * np.mean(x**2) for what, x in rounding.items()
            )
            if is_small or is_last:
                reasons = (
                    structure(errors[what][:, first], x[:, first], self._directions(what))
                    for what, x in rounding.items()
                )
                why_not = next(filter(None, reasons), "")
                return (name if is_small and not why_not else ""), why_not
        return "", ""

    def _directions(self, what: str) -> Arrays:
        """The directions of small errors of other causes, by their words: `[h, rows, e]` in the user's layout."""
        problem = self._problem(0, self.rows)
        weights, rule = problem.right.weights, problem.rule
        if not rule.softmax:
            return {}
        finite = np.where(weights > 0, problem.right.scores, 0.0)
        mean = (weights * finite).sum(axis=-1, keepdims=True)
        made = {"the scores are all too large, or all too small": weights * (finite - mean)}
        if not isinstance(rule.mask, Open):
            masked = np.where(np.isneginf(problem.right.scores), 1.0, 0.0)
            opened = unnormalised(scores(problem.q, problem.k, replace(rule, mask=Open())))
            leak = np.where(masked > 0, np.exp(opened - opened.max(axis=-1, keepdims=True)), 0.0)
            leak, even = (x - weights * x.sum(axis=-1, keepdims=True) for x in (leak, masked / weights.shape[-1]))
            made["masked keys take part"] = even
            made["masked keys take part, by their scores"] = leak
        made["each row is too large, or too small, by a factor"] = weights
        if what == "weights":
            return made
        return {words: self.numbers.in_user_layout(x @ problem.values) for words, x in made.items()}


def _own_key(mask: Mask, after: int) -> int:
    parts = mask.masks if isinstance(mask, Intersection) else (mask,)
    return next((part.offset for part in parts if isinstance(part, Causal)), after)


def _mask_of_sizes(mask: Mask, before: int, after: int) -> Mask | None:
    """The same mask where there are other numbers of queries and keys; None if it doesn't say what it would be."""
    parts: list[Mask] = []
    for part in mask.masks if isinstance(mask, Intersection) else (mask,):
        if isinstance(part, Causal | Window) and part.offset in (0, before):
            parts.append(replace(part, offset=after if part.offset else 0))
        elif not isinstance(part, Open):
            return None
    return all_of(*parts)
