"""A recording of a dump's queries and keys, by rules that are given or a model's, and its rows against that model's."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call
from attn_cli.kernel.definition.rule import Rule
from attn_cli.model.source import Source
from attn_cli.prompt import Prompt
from attn_cli.recording import Recording
from attn_cli.recording.rules import rule_in_numpy
from attn_cli.selection import Selection
from attn_cli.summaries.answers.recorded_arrays import given_call, recording_of
from attn_cli.summaries.bisect.operands import DumpedOperands, HeadCounts
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.matrix import FullMatrix, Matrix

ROWS = 64  # of each layer that are held against the model's, evenly spaced


@dataclass(frozen=True)
class FarthestRow:
    """The largest difference between a dump's weights and a model's, and where it is; 0 where nothing differs.

    layers  how many were compared
    rows    how many of each
    """

    difference: float
    layer: int
    head: int
    row: int
    layers: int
    rows: int


@dataclass(frozen=True)
class ModelRules:
    """The rule and the numbers of heads of each layer of a model on a text, and what a check found, if one was made."""

    rules: dict[int, Rule]
    counts: dict[int, HeadCounts]
    farthest: FarthestRow | None = None


def rules_of(
    source: Source, prompt: Prompt, operands_of: Callable[[dict[int, HeadCounts]], DumpedOperands], *, check: bool
) -> ModelRules:
    """The rules of a model's layers in one pass, in which rows of the dump's weights are held against the model's.

    operands_of  the dump's operands, by the numbers of heads
    """
    rules: dict[int, Rule] = {}
    counts: dict[int, HeadCounts] = {}
    found: list[FarthestRow] = []

    def visit(call: Call) -> None:
        if not isinstance(call, AttentionCall) or call.place.layer in rules:
            return
        layer = call.place.layer
        rules[layer], counts[layer] = rule_in_numpy(call), HeadCounts(call.h, int(call.k.shape[0]))
        operands = operands_of(counts)
        if check and layer in operands.layers:
            found.append(_farthest(call, operands, rules[layer]))

    source.each([prompt], Selection(), visit)
    farthest = max(found, key=lambda one: one.difference, default=None)
    if farthest is not None:
        farthest = FarthestRow(
            farthest.difference, farthest.layer, farthest.head, farthest.row, len(found), farthest.rows
        )
    return ModelRules(rules, counts, farthest)


def _farthest(call: AttentionCall, operands: DumpedOperands, rule: Rule) -> FarthestRow:
    """Where the weights of a layer's rows differ most."""
    layer = call.place.layer
    rows = [int(row) for row in np.unique(np.linspace(0, call.n - 1, min(ROWS, call.n)).astype(int))]
    given = given_call(layer, operands.read("q", layer), operands.read("k", layer), None, rule, call.keys)
    theirs, ours = (_weights(each, rows) for each in (given, call))
    apart = np.nan_to_num(np.abs(theirs - ours), nan=np.inf)  # [h, rows, m]
    head, row, _ = np.unravel_index(int(apart.argmax()), apart.shape)
    return FarthestRow(float(apart.max()), layer, int(head), rows[int(row)], 1, len(rows))


def _weights(call: Call, rows: list[int]) -> np.ndarray:
    """The weights of some rows `[h, rows, m]` in float64."""
    matrix = reduce(call, FullMatrix(rows=rows)).part(Matrix)
    assert matrix is not None
    return np.asarray(matrix.weights, np.float64)


def recording_of_dump(
    operands: DumpedOperands, rule: Callable[[int], Rule | None], prompt: Prompt, name: str
) -> Recording:
    """The recording of a dump's layers; `rule` None for a layer is causal attention at the usual scale."""
    values = operands.side("v")
    return recording_of(
        operands.side("q"), operands.side("k"), values if len(values) else None,
        rule=rule, tokens=prompt.tokens, model=name,
    )  # fmt: skip
