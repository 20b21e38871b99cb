"""The weights that an output was mixed by, solved from its values, and in words how they differ from the right ones."""

from typing import NamedTuple

import numpy as np

from attn_cli.kernel.lessons.dropout import dropout_rate

_COARSEST = 0.01  # of a weight, beyond which solved weights tell nothing
_CLEAR = 10.0  # times the error of a weight that a weight must have to be one
_LEAST_SUM = 0.05  # that sums of rows are off by where they are said to be
_LEAST_NORM = 1e-9  # of the smallest singular value of values, relative to the largest, below which none is solved


class SolvedWeights(NamedTuple):
    """The weights `[h, rows, keys]` that an output and its values leave possible; each may be off by `error`."""

    weights: np.ndarray
    error: float

    def dropout(self, right: np.ndarray) -> float | None:
        """The p of dropout on the right weights `[h, n, m]` that gives these; None where it doesn't."""
        right = right[:, : self.weights.shape[1], : self.weights.shape[2]]
        return dropout_rate(self.weights, right, np.full(right.shape, self.error), right > _CLEAR * self.error)


def solved_weights(
    output: np.ndarray, values: np.ndarray, right: np.ndarray, sizes: np.ndarray, tolerance: float
) -> SolvedWeights | None:
    """The weights w with w @ values = output, where these are the only ones; None where they aren't, or there are none.

    output     `[h, n, e]`
    values     `[h, m, e]`. With more keys than columns, only the first rows are solved, which see at most e / 2 keys
    right      the weights that a right implementation computes `[h, n, m]`
    sizes      the size of each number of the output, by which its error is measured `[h, n, e]`
    """
    m, e = values.shape[-2:]
    keys = m if m <= e else e // 2
    seen = np.flatnonzero((right[..., keys:] != 0).any(axis=(0, -1)))
    rows = output.shape[-2] if not len(seen) else int(seen[0])
    if not rows or not keys:
        return None
    used = values[:, :keys]
    norms = np.linalg.svd(used, compute_uv=False)  # [h, keys], largest first
    if (norms[:, -1] <= _LEAST_NORM * norms[:, 0]).any():
        return None
    inverse = np.linalg.pinv(used)  # [h, e, keys]
    solved, allowed = output[:, :rows] @ inverse, tolerance * sizes[:, :rows]
    error = float((allowed @ np.abs(inverse)).max())
    left = np.abs(solved @ used - output[:, :rows])
    is_mixture = bool((left <= allowed + error * np.abs(used).sum(axis=-2, keepdims=True)).all())
    return SolvedWeights(solved, error) if error <= _COARSEST and is_mixture else None


def weights_in_words(solved: SolvedWeights, right: np.ndarray, own_key: int) -> str:
    """What is wrong with the weights behind an output, in words: keys left out or taken in, or rows with wrong sums."""
    yours, error = solved
    right = right[:, : yours.shape[1], : yours.shape[2]]
    clear = _CLEAR * error
    if (yours < -clear).any():
        return ""
    lost = (right > clear) & (yours <= error)
    taken = (yours > clear) & (right <= error)
    both = (right > clear) & (yours > clear)
    ratio = np.where(both, yours / np.where(both, right, 1.0), np.nan)
    slack = np.where(both, error / np.where(both, right, 1.0), 0.0)
    middle = np.where(both, ratio, 0.0).sum(axis=-1, keepdims=True) / np.maximum(both.sum(axis=-1, keepdims=True), 1)
    if not both.any() or (np.abs(ratio - middle)[both] > _CLEAR * (slack + error)[both]).any():
        return ""
    if lost.any() or taken.any():
        said = [
            f"{_rows(cells)} {what} to {_keys(cells, own_key)}"
            for cells, what in ((lost, "nothing"), (taken, "weight"))
            if cells.any()
        ]
        return f"{', '.join(said)}, and to the others in proportion: a mask is wrong, not scores"
    sums = yours.sum(axis=-1)
    if (np.abs(sums - right.sum(axis=-1)) <= max(clear, _LEAST_SUM)).all():
        return ""
    return (
        f"the weights of a row are in proportion, and add up to {sums.min():.3g} to {sums.max():.3g}: "
        "what they are divided by is wrong, not scores"
    )


def _rows(cells: np.ndarray) -> str:
    heads, rows = np.flatnonzero(cells.any(axis=(1, 2))).tolist(), np.flatnonzero(cells.any(axis=(0, 2))).tolist()
    of = "" if len(heads) == len(cells) else f" of head {heads[0]}" if len(heads) == 1 else f" of {len(heads)} heads"
    if len(rows) == 1:
        return f"row {rows[0]}{of} gives"
    if len(rows) == rows[-1] - rows[0] + 1:
        return f"rows {rows[0]}-{rows[-1]}{of} give"
    return f"{len(rows)} rows{of}, from row {rows[0]} on, give"


def _keys(cells: np.ndarray, own_key: int) -> str:
    rows, columns = np.nonzero(cells.any(axis=0))
    steps, keys = set((columns - rows - own_key).tolist()), set(columns.tolist())
    named = {0: "their own key", -1: "the key before their own", 1: "the key after their own"}
    if len(steps) == 1:
        (step,) = steps
        return named.get(step, f"the key {abs(step)} {'after' if step > 0 else 'before'} their own")
    if len(keys) == 1:
        return f"key {keys.pop()}"
    if min(steps) > 0:
        return "keys that follow them"
    if len(keys) == max(keys) - min(keys) + 1 and len(keys) < cells.shape[-1]:
        return f"keys {min(keys)}-{max(keys)}"
    return f"{len(rows)} keys, counted row by row"
