"""The contribution of heads, from each key, to the logit of the answer: w_ij v_j W_O^h along its direction.

The direction is that in which the answer's logit grows over the mean logit, with the final norm held.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attn_cli.arrays import at_least_float32, to_numpy
from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call
from attn_cli.errors import InputError, LoadError
from attn_cli.model.intervention import HeadPlace
from attn_cli.model.source import Predicting
from attn_cli.prompt import Prompt
from attn_cli.selection import Selection
from attn_cli.summaries.answer import Answer, Next, Shape, Table
from attn_cli.summaries.answers.baseline import baseline
from attn_cli.text import cut, quoted

_NAMED = 3  # heads of a key, and keys of a head, that JSON names
_SHOWN = 12  # rows that a screen shows where no number was asked for
_LONGEST = 40  # characters of a generated answer
SHAPE = Shape(
    "attn.logit_keys/2",
    "What heads write from each key to the answer's logit, less the mean logit.",
    {
        "keys": ("key", "key_token", "direct_logit", "layer", "head", "largest"),
        "heads": ("layer", "head", "direct_logit", "key", "key_token", "largest"),
        "cells": ("layer", "head", "key", "key_token", "direct_logit"),
        "answer": ("row", "id", "token"),
        "run": ("probability", "logit", "heads_logit", "rest_logit"),
    },
    screen={"keys": ("key_token", "direct_logit", "head", "largest")},
    bars=("direct_logit",),
    legend=("direct: what heads write to the answer's logit; later layers can undo it",),
)


def logit_keys(source: Predicting, prompt: Prompt, selection: Selection, shown: int | None = None) -> Answer:
    """What each selected head adds, from each key, to the logit of the answer: `[heads, m]`, in logits."""
    experiment = source.experiment(prompt)
    target = experiment.target
    if target is None:
        raise InputError("this model predicts no token, so heads have no direct logit", "--by output needs none")
    parts = source.logit_parts(prompt, experiment)
    heads: list[HeadPlace] = []
    values: list[np.ndarray] = []

    def visit(call: Call) -> None:
        if len(call.keys) != len(prompt.tokens) or call.place.stream not in ("self", "text", "cross"):
            return
        places = [HeadPlace(call.place.layer, head, call.place.stream) for head in call.place.heads]
        directions = {at: parts.directions[place] for at, place in enumerate(places) if place in parts.directions}
        heads.extend(places[at] for at in directions)
        values.extend(_of_keys(call, directions))

    source.each([prompt], selection, visit)
    if not heads:
        raise LoadError("no chosen head shows what it writes from each key", "attn knock says what heads do")
    cells = np.stack(values)
    named = [{"layer": place.layer, "head": place.head} for place in heads]
    tokens = [{"key": token.index, "key_token": token.text} for token in prompt.tokens]
    of_keys, of_heads = _sums(tokens, named, cells.T), _sums(named, tokens, cells)
    largest = {(head, int(key)) for head, row in enumerate(cells) for key in np.argsort(-np.abs(row))[:_NAMED]}
    largest |= {(int(head), key) for key, row in enumerate(cells.T) for head in np.argsort(-np.abs(row))[:_NAMED]}
    of_all = float(sum(parts.heads.values()))
    run = {"probability": target.probability, "logit": parts.logit, "heads_logit": of_all, "rest_logit": parts.rest}
    tables = {
        "keys": Table.of(of_keys),
        "heads": Table.of(of_heads),
        "cells": Table.of(
            named[head] | tokens[key] | {"direct_logit": float(cells[head, key])} for head, key in sorted(largest)
        ),
        "answer": baseline(experiment)[0],
        "run": Table.of([run]),
    }
    word = quoted(cut("".join(token.text for token in target.tokens).strip(), _LONGEST))
    first, best = of_keys[0], f"{of_heads[0]['layer']}.{of_heads[0]['head']}"
    findings = (
        f"heads write most to {word} from {quoted(first['key_token'])} {first['key']}: {first['direct_logit']:+.2f}",
        f"its logit is {parts.logit:+.2f} over the mean: all heads {of_all:+.2f}, the rest {parts.rest:+.2f}",
    )
    matrices = {"direct_logit": cells} | {
        f"{name}s": np.array([at[name] for at in named]) for name in ("layer", "head")
    }
    return Answer(SHAPE, findings, tables, matrices, shown or _SHOWN, Next("knock", None, ("-H", best)))


def _sums(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[Mapping[str, Any]], values: np.ndarray
) -> list[dict[str, Any]]:
    """Rows with their sum of `values` `[rows, columns]` and the column that adds most to it; the largest first."""
    sums, largest = values.sum(axis=1), np.abs(values).argmax(axis=1)
    return [
        {**rows[at], "direct_logit": float(sums[at]), **columns[largest[at]], "largest": float(values[at, largest[at]])}
        for at in np.argsort(-sums, kind="stable").tolist()
    ]


def _of_keys(call: Call, directions: Mapping[int, Sequence[tuple[int, np.ndarray]]]) -> list[np.ndarray]:
    """The contribution of heads, by key, along the directions of some rows, added up: `[m]` for each of these heads."""
    if not isinstance(call, AttentionCall):
        raise LoadError(f"layer {call.place.layer} ({call.place.name}) shows its weights alone, not its values",
                        "attn knock says what its heads do")  # fmt: skip
    v = to_numpy(at_least_float32(call.v)).astype(np.float64)  # [g, m, e]
    totals = {head: np.zeros(call.m) for head in directions}
    rows = sorted({row for of_head in directions.values() for row, _ in of_head})
    for band in call.bands(rows=rows):  # once: a call counts the rows of its output
        heads = list(range(call.h)[band.heads])
        for head, of_head in directions.items():
            for row, direction in of_head:
                if head in heads and band.start <= row < band.stop:
                    weights = to_numpy(band.weights[heads.index(head), row - band.start]).astype(np.float64)
                    values = v[head * len(v) // call.h, band.first : band.last]
                    totals[head][band.first : band.last] += weights * (values @ direction)
    return list(totals.values())
