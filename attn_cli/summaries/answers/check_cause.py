"""The cause of wrong numbers: a usual mistake, dropout, the rounding of a lower precision, or none of these."""

from collections.abc import Iterator, Sequence
from itertools import chain, combinations
from typing import Any

import numpy as np

from attn_cli.kernel.definition.dense import attend
from attn_cli.kernel.definition.heads import join_heads, split_heads
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.lessons.dropout import dropout_rate, solved_weights
from attn_cli.kernel.lessons.mistakes.problem import Problem
from attn_cli.kernel.lessons.mistakes.register import mistakes, why_nan
from attn_cli.kernel.lessons.precision import PRECISIONS
from attn_cli.selection import ranges
from attn_cli.summaries.answers.check_numbers import FAR, Arrays, CheckedNumbers, ErrorSize
from attn_cli.text import counted, listed

_MOST_CELLS = 2**22  # mistakes are tried on this many cells; in a larger matrix, on its first rows
_EQUAL = 1e-13  # two mistakes closer than this are equal; the first in the list, the more usual one, is named
_LIKELY = 4  # times that a mistake must be nearer than what is right, and tolerances that it may be off on the whole
_LEFT = 0.04  # what may then be left, relative to sizes: the rounding of bfloat16
_MOST_STRETCHES = 4  # of rows that are told one by one
_COARSER = ("float32", "float16", "bfloat16")

Tried = Iterator[tuple[str, Arrays]]
"""Mistakes in words, each with the numbers that it leads to, in the user's layout."""


class CauseSearch:
    """The search for what made the user's numbers wrong."""

    def __init__(self, numbers: CheckedNumbers) -> None:
        self.numbers, self.call, self.tolerance = numbers, numbers.call, numbers.tolerance
        self.bad = next(bad for bad in numbers.bad.values() if bad.any())
        call, made_of = self.call, self.call.ingredients
        self.rows = min(call.n, max(1, _MOST_CELLS // (call.h * call.m)))
        width = call.h * call.q.shape[-1] if made_of.x is None else made_of.x.shape[-1]
        rotation = made_of.rotation if made_of.latent is None else None
        wrong = np.asarray(self.bad[:, : self.rows].any(axis=(0, 2)))
        self.rule = call.rule.of_rows(0, self.rows, call.m)
        self.problem = Problem(call.q[:, : self.rows], call.k, call.v, self.rule, width, rotation, wrong)

    def cause(self) -> dict[str, Any]:
        """The first that fits of: NaN, a mistake, dropout, rounding; else where the wrong numbers are."""
        numbers = self.numbers
        for values in numbers.user.values():
            if not np.isfinite(values).all():
                bad = np.asarray(~np.isfinite(values).all(axis=-1))
                return {"cause": why_nan(self.problem, bad[:, : self.rows]) or None, "picture": places(self.bad)}
        wrong = numbers.distance(numbers.right)
        made = ((words, make()) for words, make in mistakes(self.problem))
        of_register = ((words, self._arrays(of.weights, of.output)) for words, of in made)
        best, words, of_best = self._nearest(chain(self._layouts(), self._transposed(), of_register))
        if self._explains(best, wrong, of_best):
            return {"cause": words, "cause_error": best.worst}
        if dropped := self._dropout():
            return {"cause": dropped}
        coarser = (PRECISIONS[name] for name in _COARSER)
        fits = (each.name for each in coarser if self.tolerance < each.tolerance >= wrong.worst)
        rounding = None if numbers.decimals else next(fits, None)
        return {"rounding": rounding} if rounding else {"picture": places(self.bad)}

    def _arrays(self, weights: np.ndarray, output: np.ndarray) -> Arrays:
        return {"output": self.numbers.in_user_layout(output), "weights": weights}

    def _attended(self, q: np.ndarray, k: np.ndarray, v: np.ndarray, rule: Rule) -> Arrays:
        return self._arrays(*attend(q[:, : self.rows], k, v, rule.of_rows(0, self.rows, self.call.m))[1:])

    def _nearest(self, tried: Tried) -> tuple[ErrorSize, str, Arrays]:
        best: tuple[ErrorSize, str, Arrays] = FAR, "", {}
        for words, made in tried:
            distance = self.numbers.distance(made)
            if distance.typical < best[0].typical - _EQUAL:
                best = distance, words, made
        return best

    def _explains(self, off: ErrorSize, wrong: ErrorSize, made: Arrays) -> bool:
        if self.numbers.decimals:
            return bool(made) and not any(bad.any() for bad in self.numbers.rounded_otherwise(made).values())
        if off.worst <= self.tolerance:
            return True
        is_small = off.worst <= _LEFT or off.typical <= _LIKELY * self.tolerance
        return self.numbers.own_tolerance is None and is_small and off.typical * _LIKELY < wrong.typical

    def _layouts(self) -> Tried:
        """Errors of layout: axes in another order, rows left at 0, operands of another entry or with rows first."""
        call, first, numbers = self.call, self.numbers.first, self.numbers
        if call is not first:
            yield "k and v are those of batch entry 0", self._attended(call.q, first.k, first.v, call.rule)
            parts = [part for part in first.rule.mask.parts or (first.rule.mask,) if not part.numbers]
            open_parts = [str(x) for x in parts if np.asarray(x.keys if x.cells is None else x.cells, dtype=bool).all()]
            words = f"the mask is missing ({', '.join(open_parts)}), or is" if open_parts else "the mask is"
            yield f"{words} that of batch entry 0", self._attended(call.q, call.k, call.v, first.rule)
        if "output" not in numbers.user:
            return
        output, right, w_o = numbers.user["output"], numbers.right["output"], call.ingredients.projection
        if w_o is not None and w_o.shape[0] == w_o.shape[1]:
            joined = join_heads(self.problem.right.output)[None]
            yield "W_O was not applied: these are the joined heads", {"output": joined}
        if output.shape[1] == output.shape[2] > 1:
            yield "the output is transposed: the array is [e, n]", {"output": right.swapaxes(1, 2)}
        if output.shape[0] == output.shape[1] > 1:
            yield "rows come before heads: the array is [n, h, e]", {"output": right.swapaxes(0, 1)}
        empty = np.asarray(~output.any(axis=(0, 2)) & right.any(axis=(0, 2)))
        if empty.any() and not empty.all():
            unwritten = "the last tile of queries was" if empty[-1] else "they were"
            words = f"{counted(int(empty.sum()), 'row')} from row {empty.argmax()} on are 0 in every head: {unwritten}"
            yield f"{words} left unwritten", {"output": np.where(empty[:, None], 0.0, right)}
        yield from self._heads_second()

    def _heads_second(self) -> Tried:
        """q, k and v with rows before heads, `[batch, n, heads, d]`, under masks that know no sizes."""
        call, rule = self.call, self.call.rule
        n, h, m, g = call.h, call.n, len(call.k), call.k.shape[-2]
        plain = rule.bias is None and rule.sink is None and call.ingredients.x is None and not self.numbers.joined
        if not plain or str(rule.mask) not in ("no mask", "causal") or h % g or 1 in (n, h) or h * n * m > _MOST_CELLS:
            return
        words = f"q, k and v come as [batch, n, heads, d] and were read as {n} heads of {h} queries"
        q, k, v = (x.swapaxes(0, 1) for x in (call.q, call.k, call.v))
        output = attend(q, k, v, rule).output.swapaxes(0, 1)  # [n, h, e], as attn read the output
        yield f"{words}: save heads before rows, x.swapaxes(-3, -2)", {"output": output}

    def _transposed(self) -> Tried:
        """Square projections, some of them transposed."""
        call, made_of = self.call, self.call.ingredients
        square = {
            name: np.asarray(w)
            for name, w in (*made_of.projections.items(), ("o", made_of.projection))
            if w is not None and w.shape[0] == w.shape[1] and not np.array_equal(w, w.T)
        }
        for names in (chosen for count in range(len(square)) for chosen in combinations(square, count + 1)):
            q, k, v = (self._projected(x, square[x].T) if x in names else getattr(call, x) for x in "qkv")
            attention = attend(q[:, : self.rows], k, v, self.rule)
            arrays = self._arrays(attention.weights, attention.output)
            if "o" in names:
                arrays["output"] = (join_heads(attention.output) @ square["o"].T)[None]
            words = f"{listed(f'w{name}' for name in names)} {'is' if len(names) == 1 else 'are'} transposed: "
            yield words + "nn.Linear keeps its weight as [out, in], here they are [in, out]", arrays

    def _projected(self, name: str, w: np.ndarray) -> np.ndarray:
        call, made_of = self.call, self.call.ingredients
        x = made_of.x if name == "q" or made_of.context is None else made_of.context
        heads = np.asarray(split_heads(np.asarray(x) @ w, w.shape[1] // getattr(call, name).shape[-1]))
        if made_of.rotation is None or name == "v":
            return heads
        return np.asarray(made_of.rotation.turn(heads, made_of.rotation.offset if name == "q" else 0))

    def _dropout(self) -> str:
        """The words for dropout that was left on, of given weights, of those behind an output, or of the output."""
        user, right, problem = self.numbers.user, self.numbers.right, self.problem
        if self.rows < self.call.n:
            return ""
        weights = problem.right.weights
        least = self.tolerance * weights.max(axis=-1, keepdims=True)  # smaller ones have few digits
        behind = [(user["weights"], self.tolerance * np.maximum(weights, least))] if "weights" in user else []
        error = self.tolerance * self.numbers.sizes["output"] if "output" in user else None
        if error is not None and not self.numbers.joined and self.call.ingredients.value_up is None:
            solved = solved_weights(user["output"], problem.values, error)
            behind += [solved] if solved else []
        for yours, off in behind:
            if p := dropout_rate(yours, weights, off):
                return f"dropout was left on, p about {p:.2g}: some weights are 0, the others divided by 1 - p"
        if error is not None and (p := dropout_rate(user["output"], right["output"], error)):
            return f"dropout was left on for the output, p about {p:.2g}: some numbers are 0"
        return ""


def places(bad: np.ndarray) -> str:
    """The rows, heads and columns of wrong numbers in words; `bad` `[h, n, e]` is True there, at least once."""
    h, n, e = bad.shape
    by_row = np.asarray(bad.any(axis=-1))  # [h, n]
    heads, columns = np.flatnonzero(by_row.any(axis=-1)).tolist(), np.flatnonzero(bad.any(axis=(0, 1))).tolist()
    of = "" if h == 1 else " of every head" if len(heads) == h else f" of {_named('head', heads)}"
    only = f", in {_named('column', columns)} alone" if len(columns) < e else ""
    if not (by_row[heads] == by_row[heads[0]]).all():
        return f"{by_row[heads].mean():.0%} of the rows{of} are wrong{only}, not the same in each"
    rows = np.flatnonzero(by_row[heads[0]]).tolist()
    first, last = rows[0], rows[-1]
    if len(rows) == n:
        return f"every row{of} is wrong{only}"
    if last == n - 1 and len(rows) == n - first:
        verb = "is" if first == 1 else "are"
        return f"{_named('row', range(first))}{of} {verb} right, from row {first} on they are wrong{only}"
    return f"{_named('row', rows)}{of} {'is' if len(rows) == 1 else 'are'} wrong{only}"


def _named(noun: str, numbers: Sequence[int]) -> str:
    """`row 3`, `rows 0-15`, or of more than four stretches their number."""
    named = ranges(numbers)
    if named.count(",") > _MOST_STRETCHES - 1:
        return counted(len(numbers), noun)
    return f"{noun}{'s' * (len(numbers) > 1)} {named.replace(',', ', ')}"
