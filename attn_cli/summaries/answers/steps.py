"""--steps: every array of a call from the embeddings to the output, for picked rows."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attn_cli.arrays import to_numpy
from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call
from attn_cli.errors import InputError, LimitError
from attn_cli.kernel.definition.bias import Alibi
from attn_cli.kernel.definition.heads import expand_groups, join_heads
from attn_cli.kernel.lessons.steps import steps
from attn_cli.kernel.stats.wanted import RowStats, Wanted
from attn_cli.summaries.reduce import Part, Summary

PER_ROW = ("largest", "sink", "sum", "sink weight")  # one number a query
_MOST_CELLS = 2**24  # about ten arrays of this many float64 numbers take 1.3 GB


@dataclass(frozen=True, eq=False)
class Stage:
    """One array of the computation: its name, its formula, the names of its axes (heads, queries ...), its values."""

    name: str
    formula: str
    axes: tuple[str, ...]
    values: np.ndarray


@dataclass(frozen=True, eq=False)
class Steps(Part):
    """Every array of a call's computation, from q, k, v to the output, in order, for the queries `rows`."""

    name: ClassVar[str] = "steps"

    rows: tuple[int, ...]
    stages: tuple[Stage, ...]

    def stage(self, name: str) -> Stage | None:
        """The array of that name, such as "scores", with its formula; None if the call doesn't make it."""
        return next((stage for stage in self.stages if stage.name == name), None)

    def tables(self, summary: Summary) -> dict[str, Iterable[dict[str, Any]]]:
        """`cells`, a row per number of every array; `stages`, the arrays."""
        return {"cells": self._cells(summary), "stages": self._stages(summary)}

    def _cells(self, summary: Summary) -> Iterator[dict[str, Any]]:
        for number, stage in enumerate(self.stages, 1):
            heads = heads_of(stage, summary) if stage.axes[0] == "heads" else (None,)
            for head, values in zip(heads, stage.values.reshape(len(heads), *stage.values.shape[-2:]), strict=True):
                lead = {"step": number, "stage": stage.name, "head": head}
                for row, numbers in enumerate(values.tolist()):
                    index = self.rows[row] if stage.axes[-2] == "queries" else row
                    yield from (lead | {"row": index, "column": at, "value": x} for at, x in enumerate(numbers))

    def _stages(self, summary: Summary) -> Iterator[dict[str, Any]]:
        for step, stage in enumerate(self.stages, 1):
            lead = {"layer": summary.place.layer, "step": step, "stage": stage.name, "formula": stage.formula}
            of_axes = {"axes": [*stage.axes], "shape": [*stage.values.shape], "queries": [*self.rows]}
            yield {**lead, **of_axes, "values": stage.values}

    def arrays(self) -> dict[str, np.ndarray]:
        """The array of every stage of the computation by its name, such as `scores`, `weights` and `output`."""
        return {stage.name: stage.values for stage in self.stages}


def heads_of(stage: Stage, summary: Summary) -> Sequence[int]:
    """The heads that a stage's first axis is of: query heads, or the key heads that they share."""
    heads = summary.place.heads
    return heads if len(stage.values) == len(heads) else sorted(set(summary.place.groups))


class WalkSteps:
    """Computes one call's attention, with every array between, as `Steps`, for the queries `rows`; None for all."""

    def __init__(self, rows: Sequence[int] | None = None) -> None:
        self.picked_rows = rows

    def wanted(self, call: Call) -> Wanted:
        """An empty request: it reads queries, keys and values, and no statistics of rows."""
        return Wanted()

    def part(self, call: Call, stats: RowStats) -> Steps:
        """Every array from q, k, v to the output."""
        if not isinstance(call, AttentionCall):
            raise InputError(
                f"layer {call.place.layer} shows its weights but not its q, k and v", "--steps needs all three"
            )
        rows = tuple(range(call.n)) if self.picked_rows is None else tuple(self.picked_rows)
        if call.h * len(rows) * call.m > _MOST_CELLS:
            shape = f"{call.h} heads of {len(rows):,} x {call.m:,}"
            raise LimitError(f"the steps of {shape} are too many to keep", "pick a row: --token 0")
        self.call = call
        stages = (stage for stages in (self._inputs(rows), self._walk(rows)) for stage in stages)
        return Steps(rows, tuple(stage for stage in stages if stage.name not in call.ingredients.stand_ins))

    def _inputs(self, rows: tuple[int, ...]) -> Iterator[Stage]:
        call, ingredients = self.call, self.call.ingredients
        source = "x" if ingredients.context is None else "context"
        if ingredients.x is not None:
            is_whole = source == "x" and call.n == call.m  # the keys' vectors, too
            picked, axis = (slice(None), "keys") if is_whole else (list(rows), "queries")
            x, formula = to_numpy(ingredients.x)[picked], "embeddings"
            if ingredients.positions is not None:
                positions, formula = to_numpy(ingredients.positions)[picked], "word + position"
                yield Stage("word", "embeddings", (axis, "width"), x - positions)
                yield Stage("position", "sinusoidal", (axis, "width"), positions)
            yield Stage("x", formula, (axis, "width"), x)
        if ingredients.context is not None:
            yield Stage("context", "embeddings", ("keys", "width"), to_numpy(ingredients.context))
        for name, matrix in ingredients.projections.items():
            yield Stage(f"w{name}", f"W_{name.upper()}", ("width", "h d"), to_numpy(matrix))
        if len(rows) == 1 and ingredients.x is not None and "q" in ingredients.projections:
            products = to_numpy(ingredients.x)[rows[0], :, None] * to_numpy(ingredients.projections["q"])
            yield Stage("q parts", "x_i W_Q", ("width", "h d"), products)
        origins = (
            ("x W_Q", f"{source} W_K", f"{source} W_V") if ingredients.projected else ("queries", "keys", "values")
        )
        if ingredients.latent is not None:
            absorbed = ingredients.value_up is not None
            origins = ("x W_Q U_Kᵀ", "latent", "latent") if absorbed else ("x W_Q", "latent U_K", "latent U_V")
            yield Stage("latent", f"{source} W_DKV", ("keys", "rank"), to_numpy(ingredients.latent.c))
        if (turn := ingredients.rotation) is not None:
            q, k = map(to_numpy, turn.pair(call.q, call.k, -1))
            yield Stage("unrotated q", origins[0], ("heads", "queries", "d"), q[:, list(rows)])
            yield Stage("unrotated k", origins[1], ("heads", "keys", "d"), k)
            origins = (how := f"rotated by p · {turn.base:g}^(−2i/d)", how, origins[2])
        yield Stage("q", origins[0], ("heads", "queries", "d"), to_numpy(call.q[:, list(rows)]))
        yield Stage("k", origins[1], ("heads", "keys", "d"), to_numpy(call.k))
        yield Stage("v", origins[2], ("heads", "keys", "e"), to_numpy(call.v))

    def _walk(self, rows: tuple[int, ...]) -> Iterator[Stage]:
        call = self.call
        together = [(0, call.n)] if rows == tuple(range(call.n)) else [(row, row + 1) for row in rows]
        pieces = [
            steps(call.q[:, first:last], call.k, call.v, call.rule.of_rows(first, last, call.m))
            for first, last in together
        ]
        values = np.zeros(0)
        for same in zip(*pieces, strict=True):
            before, values = values, np.concatenate([to_numpy(step.values) for step in same], axis=1)
            name, formula = same[0].name, same[0].formula
            formula = "+ alibi" if name == "biased" and isinstance(call.rule.bias, Alibi) else formula
            if len(rows) == 1 and name == "scores":
                products = to_numpy(call.q[:, list(rows)]) * to_numpy(expand_groups(call.k, call.h))
                yield Stage("score parts", "q_i k_i", ("heads", "keys", "d"), products)
            if len(rows) == 1 and name == "output":
                products = to_numpy(expand_groups(call.v, call.h)) * before[:, 0, :, None]
                yield Stage("output parts", "weight · v", ("heads", "keys", "e"), products)
            last = "e" if name == "output" else "row" if name in PER_ROW else "keys"
            yield Stage(name, formula, ("heads", "queries", last), values)
        yield from self._after(values)

    def _after(self, output: np.ndarray) -> Iterator[Stage]:
        """The stages after attention: U_V for mixed latents, joined heads, W_O."""
        ingredients = self.call.ingredients
        if ingredients.value_up is not None:
            output = output @ to_numpy(ingredients.value_up)
            yield Stage("raised", "output U_V", ("heads", "queries", "e"), output)
        joined = join_heads(output)
        if len(output) > 1 and not (ingredients.projection is None and ingredients.x is None):
            yield Stage("joined", "heads concatenated", ("queries", "h e"), joined)
        if ingredients.projection is not None:
            yield Stage("projected", "joined W_O", ("queries", "width"), joined @ to_numpy(ingredients.projection))
