"""Numbers of every row of a call, read off its bands where no compiled code walks it."""

import numpy as np

from attn_cli.arrays import from_numpy, indices, namespace, to_numpy
from attn_cli.call import Call
from attn_cli.kernel.walk.band import Band
from attn_cli.kernel.walk.row_numbers import RowNeeds, RowNumbers


def band_numbers(call: Call, needs: RowNeeds) -> RowNumbers:
    """The moments but for maximum and log_sum, cells, lists, marks, column sums, stretches and largest weight."""
    assert needs.cells is not None and needs.steps is not None and needs.marks is not None
    h, n, m = call.h, call.n, call.m
    zeros = np.zeros
    numbers = RowNumbers(
        None, mass=zeros((h, n)), surprise=zeros((h, n)), distance=zeros((h, n)),
        cells=zeros((h, n, needs.cells.shape[1])), list_sums=zeros((h, n, len(needs.lists))),
        mark_sums=zeros((h, n, len(needs.marks))), step_sums=zeros((h, n, len(needs.steps) - 1)),
        received=zeros((h, m)), top_weights=zeros((h, n, 1)), top_keys=np.full((h, n, 1), -1),
    )  # fmt: skip
    columns = np.concatenate([needs.cells, *needs.lists], axis=1)
    widths = [keys.shape[1] for keys in needs.lists]
    starts = np.cumsum([needs.cells.shape[1], *widths])[:-1]
    for band in call.bands():
        if band.first < band.last:
            _add(numbers, band, needs, columns, starts)
    return numbers


def _add(numbers: RowNumbers, band: Band, needs: RowNeeds, columns: np.ndarray, starts: np.ndarray) -> None:
    """Note the rows of one band."""
    weights, xp = band.weights, namespace(band.weights)
    rows, heads = slice(band.start, band.stop), band.heads
    at = columns[rows] - band.first  # [b, c]
    inside = (at >= 0) & (at < band.last - band.first)
    cells = to_numpy(weights[:, np.arange(len(at))[:, None], np.where(inside, at, 0)]) * inside  # [h, b, c]
    assert needs.cells is not None and needs.steps is not None and needs.marks is not None
    count = needs.cells.shape[1]
    own = np.arange(band.start, band.stop) + numbers.received.shape[1] - numbers.mass.shape[1]  # type: ignore[union-attr]
    edges = np.clip(own[:, None] + needs.steps.astype(np.int64), band.first, band.last) - band.first  # [b, T + 1]
    running = np.concatenate([np.zeros((*weights.shape[:2], 1)), np.cumsum(to_numpy(weights), axis=-1)], axis=-1)
    far = xp.abs(indices(band.first, band.last, weights) - from_numpy(own, weights)[:, None])  # [b, keys]
    top = to_numpy(xp.argmax(weights, axis=-1))
    marks = from_numpy(needs.marks[:, band.first : band.last].T, weights)
    logarithms = xp.log(xp.where(weights > 0, weights, xp.ones_like(weights)))
    largest = to_numpy(xp.max(weights, axis=-1))
    for sums, of_rows in (
        (numbers.mass, xp.sum(weights, axis=-1)),
        (numbers.surprise, -xp.sum(weights * logarithms, axis=-1)),
        (numbers.distance, xp.sum(weights * far, axis=-1)),
        (numbers.cells, cells[..., :count]),
        (numbers.list_sums, np.add.reduceat(cells, starts, axis=2)),
        (numbers.mark_sums, weights @ marks),
        (
            numbers.step_sums,
            np.diff(
                np.take_along_axis(running, np.broadcast_to(edges, (*running.shape[:1], *edges.shape)), axis=-1),
                axis=-1,
            ),
        ),
        (numbers.top_weights, largest[..., None]),
        (numbers.top_keys, np.where(largest > 0, top + band.first, -1)[..., None]),
    ):
        sums[heads, rows] = to_numpy(of_rows)  # type: ignore[index]
    numbers.received[heads, band.first : band.last] += to_numpy(xp.sum(weights, axis=1))  # type: ignore[index]
