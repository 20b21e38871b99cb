"""Causal masks that go wrong where keys are walked through in tiles: at a tile's edge, or from the second tile on."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from attn_cli.kernel.definition.mask import Mask, dense
from attn_cli.kernel.definition.masks import Causal, Given, Intersection, all_of
from attn_cli.kernel.lessons.mistakes.problem import Mistake, Problem
from attn_cli.kernel.lessons.mistakes.tiles import tiles_of


def tile_mask_mistakes(problem: Problem) -> Iterator[Mistake]:
    """Wrong causal masks in tiles, but for those that are right in a row that is known to be wrong."""
    rule, n, m = problem.rule, problem.q.shape[-2], problem.k.shape[-2]
    parts = rule.mask.masks if isinstance(rule.mask, Intersection) else (rule.mask,)
    causal = next((part for part in parts if isinstance(part, Causal)), None)
    if causal is None:
        return
    rest: list[Mask] = [part for part in parts if part is not causal]
    right = dense(rule.mask, n, m, like=problem.q)
    for tile in tiles_of(m):
        for words, cells in _masks(tile, n, m, causal.offset):
            mask = all_of(Given(cells), *rest)
            if problem.may_be((dense(mask, n, m, like=problem.q) != right).any(axis=-1)):
                yield problem.attended(words, replace(rule, mask=mask))


def _masks(tile: int, n: int, m: int, offset: int) -> Iterator[tuple[str, np.ndarray]]:
    """Every wrong mask with tiles of this size: what is wrong, and its cells `[n, m]`."""
    i, j = np.arange(n)[:, None], np.arange(m)[None]
    own = i + offset
    end = own // tile * tile + tile
    later, before = f"from the second tile of {tile}", "the causal mask"
    yield f"the tile on the diagonal is not masked: rows see all its {tile} keys", j < end
    yield f"{later} keys on, the tile on the diagonal is not masked", np.where(own < tile, j <= own, j < end)
    yield (
        f"{before} is off by one within a tile of {tile}: a query sees one key ahead, if that is in its tile",
        (j <= own + 1) & (j < end),
    )
    yield (
        f"{before} is off by one {later} on: it blocks the diagonal too (j < i instead of j <= i)",
        j <= own - (own >= tile),
    )
    for what, is_later in (("queries", own >= tile), ("keys", j >= tile)):
        yield f"{before} is off by one {later} {what} on: a query sees one key ahead", j <= own + is_later
    for step, words in ((1, "further ahead"), (-1, "further back")):
        yield f"{before} moves one key {words} with every tile of {tile} keys", j - step * (j // tile) <= own
        yield f"{before} moves one key {words} with every tile of {tile} queries", j <= own + step * (i // tile)
    yield (
        f"{before} compares places within tiles of {tile}, without where the tiles begin",
        (j % tile <= own % tile) & (j < end),
    )
    yield f"{before} of every tile of {tile} queries is that of the first", j <= i % tile + offset
    yield f"queries see the keys of their own tile of {tile} alone", (j <= own) & (j >= end - tile)
    yield f"the tile of {tile} keys on the diagonal is skipped", j < end - tile
