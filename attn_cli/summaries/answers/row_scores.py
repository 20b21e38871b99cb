"""One row of a head as scores and weights, computed again with scores that are changed."""

from dataclasses import dataclass

import numpy as np

from attn_cli.arrays import at_least_float32, to_numpy
from attn_cli.attention_call import AttentionCall
from attn_cli.kernel.bands.masked_cells import lowest_of


@dataclass(frozen=True, eq=False)
class RowScores:
    """One row of a head: its scores and weights, as the model has them.

    products  `[m]`, the scaled q kᵀ: scores before softcap and bias
    bias      `[m]`, what is added to scores; None for none
    softcap   what scores stay below, by a tanh; None for none
    sink      the score of a learned sink; None without one
    weights   `[m]`, after the softmax
    visible   `[m]`, whether the row may see the key
    """

    products: np.ndarray
    bias: np.ndarray | None
    softcap: float | None
    sink: float | None
    weights: np.ndarray
    visible: np.ndarray

    def scores(self, products: np.ndarray) -> np.ndarray:
        """The scores `[m]` that these products (scaled q kᵀ) give after softcap and bias."""
        capped = products if self.softcap is None else np.tanh(products / self.softcap) * self.softcap
        return capped if self.bias is None else capped + self.bias

    def softmax(self, products: np.ndarray) -> np.ndarray:
        """The weights `[m]` that the row would have with these products (scaled q kᵀ, before softcap and bias)."""
        scores = np.where(self.visible, self.scores(products), -np.inf)
        most = max(float(scores.max()), -np.inf if self.sink is None else self.sink)
        exponentials = np.exp(scores - most)
        beside = 0.0 if self.sink is None else float(np.exp(self.sink - most))
        weights: np.ndarray = exponentials / (exponentials.sum() + beside)
        return weights

    def weight(self, key: int, product: float) -> float:
        """The weight of a key, 0 to 1, if its product (score before softcap and bias) were this one.

        All other products are what they are.
        """
        products = self.products.copy()
        products[key] = product
        return float(self.softmax(products)[key])


def row_scores(call: AttentionCall, head: int, row: int) -> RowScores:
    """The scores and weights of one head's row in float64; `head` and `row` are indices into the call's q."""
    rule, m = call.rule, call.m
    weights, visible = np.zeros(m), np.zeros(m, dtype=bool)
    for band in call.bands(rows=[row], want_scores=True):
        if band.start <= row < band.stop and head in range(call.h)[band.heads]:
            at, inside = list(range(call.h)[band.heads]).index(head), row - band.start
            assert band.raw_scores is not None
            scores = to_numpy(band.raw_scores[at, inside])
            visible[band.first : band.last] = scores > lowest_of(scores)
            weights[band.first : band.last] = to_numpy(band.weights[at, inside])
    q = to_numpy(at_least_float32(call.q[head, row])).astype(np.float64)
    k = to_numpy(at_least_float32(call.k[head * call.k.shape[0] // call.h])).astype(np.float64)
    bias = rule.bias_of(row, row + 1, 0, m)
    if bias is not None:
        numbers = to_numpy(at_least_float32(bias)).astype(np.float64)
        numbers = numbers.reshape((1,) * (3 - numbers.ndim) + numbers.shape)  # [h or 1, 1, m or 1]
        bias = np.broadcast_to(numbers[head if numbers.shape[0] > 1 else 0, 0], (m,))
    sink = None if rule.sink is None else float(to_numpy(rule.sink).reshape(-1)[head])
    return RowScores(float(rule.scale) * (k @ q), bias, rule.softcap, sink, weights, visible)
