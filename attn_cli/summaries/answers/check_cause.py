"""The cause of wrong numbers: a mistake of the register, the rounding of a lower precision, or neither."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, combinations
from typing import NamedTuple

import numpy as np

from attn_cli.attention_call import AttentionCall
from attn_cli.kernel.definition.dense import attend, scores
from attn_cli.kernel.definition.heads import join_heads, split_heads
from attn_cli.kernel.definition.mask import Mask
from attn_cli.kernel.definition.masks import Causal, Intersection, Open, Window, all_of
from attn_cli.kernel.definition.softmax import unnormalised
from attn_cli.kernel.lessons.dropout import dropout_in_output, dropout_rate
from attn_cli.kernel.lessons.mistakes.problem import Mistake, Problem
from attn_cli.kernel.lessons.mistakes.register import Fitted, fitted_mistakes, mistakes, sum_mistakes, why_nan
from attn_cli.kernel.lessons.mistakes.scale_mask_softcap import rule_mistakes
from attn_cli.kernel.lessons.mistakes.tile_masks import tile_mask_mistakes
from attn_cli.kernel.lessons.precision import PRECISIONS
from attn_cli.kernel.lessons.solved_weights import SolvedWeights, solved_weights, weights_in_words
from attn_cli.kernel.lessons.structure import LEAST_SHARE, places, structure
from attn_cli.summaries.answers.check_numbers import FAR, CheckedNumbers, ErrorSize
from attn_cli.text import listed

_MOST_CELLS = 2**22  # mistakes are tried on this many cells; in a larger matrix, on its first rows
_CLEAR = 10.0  # times its error that a number must have to be none of 0
_FITTING_CELLS = 2**17  # on which the number of a mistake is searched
_MOST_ADDED = 2**22  # numbers that are added up one by one, in each way to round sums
_EQUAL = 1e-13  # two mistakes closer than this are equal; the first in the list, the more usual one, is named
_LIKELY = 4  # times that a mistake must be nearer than what is right, and tolerances that it may be off on the whole
_LEFT = 0.04  # what may then be left, relative to sizes: the rounding of bfloat16
_AS_NEAR = 1.02  # times the least distance, at which a simpler number is as good
_FORETOLD = 0.4  # correlation of errors of rounded sums with those that were foretold, and nearly as large
_SMALL = 0.5  # typical errors, relative to sizes, beyond which nobody thinks of rounding
_MUCH = 0.5  # of the squares of larger errors that a direction explains
_SAME_ROUNDING = 2.5  # times the errors of rounding all numbers, that those of a kernel may have
_COARSER = ("float32", "float16", "bfloat16")


class Cause(NamedTuple):
    """The likely reason why numbers are wrong: a mistake of an implementation that gives the same numbers."""

    words: str = ""
    error: float | None = None
    rounding: str = ""
    picture: str = ""


def cause_of(
    numbers: CheckedNumbers, tolerance: float, bad: np.ndarray, first: AttentionCall, *, own_tolerance: bool
) -> Cause:
    """The likely cause of wrong numbers; `first` is the call of batch entry 0, whose operands others may have got."""
    return _Search(numbers, tolerance, bad, first, own_tolerance).cause()


class _Search:
    def __init__(
        self, numbers: CheckedNumbers, tolerance: float, bad: np.ndarray, first: AttentionCall, own_tolerance: bool
    ) -> None:
        self.numbers, self.tolerance, self.bad, self.own_tolerance = numbers, tolerance, bad, own_tolerance
        self.first = first
        call = numbers.call
        self.rows = min(call.n, max(1, _MOST_CELLS // (call.h * call.m)))

    def cause(self) -> Cause:
        """The first that fits of: NaN, axes in another order, mistakes, rounding."""
        numbers = self.numbers
        for values in numbers.user.values():
            if not np.isfinite(values).all():
                return Cause(self._why_nan(values) or self._why_no_key(), picture=places(self.bad))
        wrong = numbers.distance(numbers.right.output, numbers.right.weights)
        best, words = self._nearest(self._readings())
        problem = self._problem(0, self.rows)
        found = self._nearest((mistake.words, self._off(mistake)) for mistake in mistakes(problem))
        best, words = found if found[0].typical < best.typical - _EQUAL else (best, words)
        if not self._explains(best, wrong):
            best, words = self._nearest(self._fitted(problem))
        if self._explains(best, wrong):
            return Cause(words, best.worst)
        broken = self._broken_rule()
        if broken:
            return Cause(broken)
        picture = places(self.bad)
        if wrong.typical < _SMALL:
            rounded = self._sums()
            if rounded:
                return Cause(rounded)
            name, why_not = self._rounding(wrong)
            if name:
                return Cause(rounding=name)
            if why_not and picture == places(np.ones_like(self.bad)):
                picture += f"; the errors are none of rounding: {why_not}"
        return Cause(picture=picture)

    def _broken_rule(self) -> str:
        """What the user's weights leave out or take in, where these are given or follow from the output; "" if not."""
        call, given = self.numbers.call, self.numbers.user.get("weights")
        if call.h * call.n * call.m > _MOST_CELLS:
            return ""
        problem = self._problem(0, call.n)
        right = problem.right.weights
        behind = self.numbers.of_heads()
        if given is not None and (np.abs(given - right) > self.tolerance).any():
            solved: SolvedWeights | None = SolvedWeights(given, self.tolerance)
            least = self.tolerance * right.max(axis=-1, keepdims=True)
            p = dropout_rate(given, right, self.tolerance * right, right > least)
        elif behind is not None:
            solved = solved_weights(behind.output, problem.values, right, behind.sizes, self.tolerance)
            p = None if solved is None else solved.dropout(right)
            p = p or dropout_in_output(behind.output, problem.values, right, behind.sizes, self.tolerance)
        else:
            return ""
        if p:
            return f"dropout was left on, p about {p:.2g}: some weights are 0, the others divided by 1 - p"
        own_key = _own_key(call.rule.mask, call.m - call.n)
        return self._dropped_output() or ("" if solved is None else weights_in_words(solved, right, own_key))

    def _dropped_output(self) -> str:
        if "output" not in self.numbers.user:
            return ""
        right, error = self.numbers.right.output, self.tolerance * self.numbers.sizes("output")
        p = dropout_rate(self.numbers.user["output"], right, error, np.abs(right) > _CLEAR * error)
        return "" if p is None else f"dropout was left on for the output, p about {p:.2g}: some numbers are 0"

    def _problem(self, start: int, stop: int) -> Problem:
        call, ingredients = self.numbers.call, self.numbers.call.ingredients
        width = call.h * call.q.shape[-1] if ingredients.x is None else ingredients.x.shape[-1]
        rule = call.rule.of_rows(start, stop, call.m)
        rotation = ingredients.rotation if ingredients.latent is None else None
        wrong = np.asarray(self.bad.any(axis=(0, 2)))[start:stop]
        return Problem(call.q[:, start:stop], call.k, call.v, rule, width, rotation, wrong=wrong)

    def _off(self, mistake: Mistake) -> ErrorSize:
        return self.numbers.distance(self.numbers.in_user_layout(mistake.output), mistake.weights)

    @staticmethod
    def _nearest(found: "Iterator[tuple[str, ErrorSize]]") -> tuple[ErrorSize, str]:
        best, words = FAR, ""
        for each, distance in found:
            if distance.typical < best.typical - _EQUAL:
                best, words = distance, each
        return best, words

    def _explains(self, off: ErrorSize, wrong: ErrorSize) -> bool:
        if off.worst <= self.tolerance:
            return True
        is_small = off.worst <= _LEFT or off.typical <= _LIKELY * self.tolerance
        return not self.own_tolerance and is_small and off.typical * _LIKELY < wrong.typical

    def _why_nan(self, values: np.ndarray) -> str:
        call = self.numbers.call
        bad = ~np.isfinite(values).all(axis=-1)
        bad = (bad if bad.ndim == 2 else bad[None])[:, : self.rows]
        return why_nan(call.q[:, : self.rows], call.k, call.rule.of_rows(0, self.rows, call.m), bad)

    def _why_no_key(self) -> str:
        """The mistake that leaves no key to exactly the rows that hold NaN, and is right in all others; "" if none."""
        zeroed = {name: np.where(np.isfinite(x), x, 0.0) for name, x in self.numbers.user.items()}
        rest = _Search(replace(self.numbers, user=zeroed), self.tolerance, self.bad, self.first, self.own_tolerance)
        off, words = self._nearest((each.words, rest._off(each)) for each in self._masks())
        return (
            f"{words}; rows that it leaves no key are NaN, the softmax of -inf alone"
            if (off.worst <= self.tolerance)
            else ""
        )

    def _masks(self) -> Iterator[Mistake]:
        problem = self._problem(0, self.rows)
        return chain(rule_mistakes(problem), tile_mask_mistakes(problem))

    def _readings(self) -> Iterator[tuple[str, ErrorSize]]:
        """Errors of layout, each with its distance: axes in another order, rows left at 0, q, k, v with rows first."""
        yield from self._transposed()
        yield from self._of_first_entry()
        output, w_o = self.numbers.user.get("output"), self.numbers.call.ingredients.projection
        if output is None:
            return
        if w_o is not None and w_o.shape[0] == w_o.shape[1]:
            joined = join_heads(self._problem(0, self.rows).right.output)
            yield "W_O was not applied: these are the joined heads", self.numbers.distance(joined, None)
        right = self.numbers.right.output
        orders = [((-1, -2), "the output is transposed: the array is [e, n]")]
        orders += [((0, 1), "rows come before heads: the array is [n, h, e]")] if output.ndim == 3 else []
        for (a, b), words in orders:
            if output.shape[a] == output.shape[b] > 1:
                yield words, self.numbers.distance_of("output", output.swapaxes(a, b), right)
        own, definition = (np.asarray(_three_axes(x).any(axis=(0, 2))) for x in (output, right))
        empty = ~own & definition
        if empty.any() and not empty.all():
            rows = np.flatnonzero(empty)
            run = f"rows {rows[0]}-{rows[-1]} are" if len(rows) > 1 else f"row {rows[0]} is"
            named = run if len(rows) == rows[-1] - rows[0] + 1 else f"{len(rows)} rows are"
            words = f"{named} 0 in every head: {'the last tile of queries' if empty[-1] else 'they'} was left unwritten"
            words = words.replace("they was", "they were")
            yield words, self.numbers.distance_of("output", output, np.where(empty[:, None], 0.0, right))
        yield from self._heads_second(output)

    def _of_first_entry(self) -> Iterator[tuple[str, ErrorSize]]:
        """What the operands or the mask of batch entry 0 give in another entry."""
        call, first = self.numbers.call, self.first
        if call is first:
            return
        for words, kv, rule in (
            ("k and v are those of batch entry 0", first, call.rule),
            ("the mask is that of batch entry 0", call, first.rule),
        ):
            made = attend(call.q[:, : self.rows], kv.k, kv.v, rule.of_rows(0, self.rows, call.m))
            yield words, self.numbers.distance(self.numbers.in_user_layout(made.output), made.weights)

    def _transposed(self) -> Iterator[tuple[str, ErrorSize]]:
        """Square projections, some of them transposed, each choice with its distance."""
        call, ingredients = self.numbers.call, self.numbers.call.ingredients
        square = {
            name: np.asarray(w)
            for name, w in (*ingredients.projections.items(), ("o", ingredients.projection))
            if w is not None and w.shape[0] == w.shape[1] and not np.array_equal(w, w.T)
        }
        for names in (chosen for count in range(len(square)) for chosen in combinations(square, count + 1)):
            q, k, v = (self._projected(x, square[x].T) if x in names else getattr(call, x) for x in "qkv")
            made = attend(q[:, : self.rows], k, v, call.rule.of_rows(0, self.rows, call.m))
            turned = "o" in names
            output = join_heads(made.output) @ square["o"].T if turned else self.numbers.in_user_layout(made.output)
            words = f"{listed(f'w{name}' for name in names)} {'is' if len(names) == 1 else 'are'} transposed: "
            words += "nn.Linear keeps its weight as [out, in], here they are [in, out]"
            yield words, self.numbers.distance(output, made.weights)

    def _projected(self, name: str, w: np.ndarray) -> np.ndarray:
        call, ingredients = self.numbers.call, self.numbers.call.ingredients
        x = ingredients.x if name == "q" or ingredients.context is None else ingredients.context
        own = getattr(call, name)
        heads = np.asarray(split_heads(np.asarray(x) @ w, w.shape[1] // own.shape[-1]))
        if len(heads) != len(own):
            heads = heads[list(call.place.heads if name == "q" else call.place.groups)]
        if ingredients.rotation is None or name == "v":
            return heads
        return np.asarray(ingredients.rotation.turn(heads, ingredients.rotation.offset if name == "q" else 0))

    def _heads_second(self, output: np.ndarray) -> Iterator[tuple[str, ErrorSize]]:
        """q, k and v with rows before heads, `[batch, n, heads, d]`."""
        call = self.numbers.call
        n, h, m, g = call.h, call.n, len(call.k), call.k.shape[-2]
        mask = _mask_of_sizes(call.rule.mask, call.m - call.n, m - n)
        plain = call.rule.bias is None and call.rule.sink is None and call.ingredients.x is None
        if self.numbers.joined or not plain or mask is None or h % g or n == 1 or h == 1:
            return
        rows = min(n, max(1, _MOST_CELLS // (h * m)))
        rule = replace(call.rule, mask=mask).of_rows(0, rows, m)
        q, k, v = call.q[:rows].swapaxes(0, 1), call.k.swapaxes(0, 1), call.v.swapaxes(0, 1)
        swapped = Problem(q, k, v, rule, 0).right.output.swapaxes(0, 1)  # [rows, h, e], as attn read the output
        sizes = np.maximum(self.numbers.sizes("output")[:rows], np.abs(swapped))
        errors = np.abs(output[:rows] - swapped) / sizes
        words = (
            f"q, k and v come as [batch, n, heads, d] and were read as {n} heads of {h} queries; "
            f"read as {h} heads of {n}, the output is right: save them with heads before rows, x.swapaxes(-3, -2)"
        )
        yield words, ErrorSize(float(errors.max()), float(np.sqrt(np.mean(errors**2))))

    def _fitted(self, problem: Problem) -> Iterator[tuple[str, ErrorSize]]:
        rows = min(self.rows, max(1, _FITTING_CELLS // (len(problem.q) * problem.k.shape[-2])))
        whole = {each.name: each for each in fitted_mistakes(problem)}
        for fitted in fitted_mistakes(self._problem(0, rows)):
            number = self._best_number(fitted)
            mistake = whole[fitted.name].at(number)
            yield mistake.words, self._off(mistake)

    def _best_number(self, fitted: Fitted) -> float:
        """On the grid, then by golden sections between its neighbours."""

        def off(number: float) -> float:
            return self._off(fitted.at(number)).typical

        at = int(np.argmin([off(number) for number in fitted.grid.tolist()]))
        low, high = fitted.grid[max(at - 1, 0)], fitted.grid[min(at + 1, len(fitted.grid) - 1)]
        number = _minimum(off, float(low), float(high))
        simple = [float(fitted.grid[0]), *(float(f"{number:.{digits}g}") for digits in (1, 2, 3))]
        least = min(map(off, [*simple, number]))
        return next((each for each in simple if off(each) <= _AS_NEAR * least + _EQUAL), number)

    def _sums(self) -> str:
        """The words for sums kept in a low precision, "" if none were; tried on the last rows, which see most keys."""
        call = self.numbers.call
        if "output" not in self.numbers.user:
            return ""
        rows = min(call.n, max(1, _MOST_ADDED // (call.h * call.m * call.e)))
        last = slice(call.n - rows, call.n)
        sizes, right = self.numbers.sizes("output")[..., last, :], self.numbers.right.output[..., last, :]
        errors = (self.numbers.user["output"][..., last, :] - right) / sizes
        best, words = _FORETOLD, ""
        for mistake in sum_mistakes(self._problem(last.start, last.stop)):
            foretold = (self.numbers.in_user_layout(mistake.output) - right) / sizes
            alike, squares = float((errors * foretold).sum()), float((foretold**2).sum())
            correlation = alike / max(float(np.sqrt((errors**2).sum() * squares)), 1e-300)
            if correlation > best and abs(alike / squares - 1) < _FORETOLD:
                best, words = correlation, mistake.words
        return words

    def _rounding(self, wrong: ErrorSize) -> tuple[str, str]:
        """The precision whose rounding the errors are, or "" and what tells them from it."""
        why_not = ""
        for precision in (PRECISIONS[name] for name in _COARSER):
            if precision.tolerance <= self.tolerance:
                continue
            is_small = wrong.worst <= precision.tolerance
            if not is_small and precision.name != _COARSER[-1]:
                continue
            for what, values in self.numbers.user.items():
                right = self.numbers.right_of(what)
                errors, rounding = values - right, self.numbers.rounded(what, precision) - right
                is_small &= bool(np.mean(errors**2) <= _SAME_ROUNDING**2 * np.mean(rounding**2))
                share = LEAST_SHARE if is_small else _MUCH
                why_not = structure(_three_axes(errors), _three_axes(rounding), self._directions(what), share)
                if why_not:
                    return "", why_not
            if is_small:
                return precision.name, ""
        return "", why_not

    def _directions(self, what: str) -> dict[str, np.ndarray]:
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
        return {words: _three_axes(self.numbers.in_user_layout(x @ problem.values)) for words, x in made.items()}


def _three_axes(x: np.ndarray) -> np.ndarray:
    return x if x.ndim == 3 else x[None]


def _own_key(mask: Mask, after: int) -> int:
    parts = mask.masks if isinstance(mask, Intersection) else (mask,)
    return next((part.offset for part in parts if isinstance(part, Causal)), after)


def _mask_of_sizes(mask: Mask, before: int, after: int) -> Mask | None:
    """The same mask where there are other numbers of queries and keys; None if it doesn't say what it would be."""
    if isinstance(mask, Intersection):
        parts = [_mask_of_sizes(part, before, after) for part in mask.masks]
        return None if None in parts else all_of(*(part for part in parts if part is not None))
    if isinstance(mask, Causal | Window) and mask.offset in (0, before):
        return replace(mask, offset=0 if mask.offset == 0 else after)
    return mask if isinstance(mask, Open) else None


def _minimum(off: Callable[[float], float], low: float, high: float) -> float:
    """The number between two at which a function with one valley is smallest."""
    golden = (5**0.5 - 1) / 2
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = off(left), off(right)
    for _ in range(48):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = off(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = off(right)
    return left if at_left < at_right else right
