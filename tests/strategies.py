"""Generated attention problems for the laws: any sizes, heads, groups and rules, in either array library."""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from attn_cli.kernel.bands.plan import Plan, Planner, plan_of
from attn_cli.kernel.definition.bias import Alibi, BiasSum
from attn_cli.kernel.definition.mask import (
    Mask,
    all_of,
    causal,
    dilated,
    given_mask,
    mask_function,
    padding,
    prefix,
    window,
)
from attn_cli.kernel.definition.rule import Rule

# How calls that tests make are walked.
planner: ContextVar[Planner] = ContextVar("planner", default=plan_of)


def planned_by(always: Mapping[str, Any] | None = None, *, in_parts: Mapping[str, Any]) -> Planner:
    """`plan_of` with some of its choices replaced: `always`, and `in_parts` if bands of some heads are allowed."""

    def plan(*call: Any, **wishes: Any) -> Plan:
        return replace(plan_of(*call, **wishes), **(always or {}), **(in_parts if wishes.get("in_parts") else {}))

    return plan


@dataclass
class Problem:
    """Queries `[h, n, d]`, keys `[g, m, d]`, values `[g, m, e]`, and the rule between them."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    rule: Rule


@st.composite
def problems(draw: st.DrawFn, *, raw: bool = False) -> Problem:
    """Any problem; with `raw` also such that leave out the softmax."""
    groups = draw(st.integers(1, 3))
    heads = groups * draw(st.integers(1, 3))
    n, m = draw(st.integers(1, 24)), draw(st.integers(1, 24))
    d, e = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    offset = m - n
    every_mask: list[Mask] = [
        Mask(), causal(), causal(offset), all_of(causal(offset), window(3, offset)), window(2, offset, both_sides=True),
        dilated(3, 2, offset), all_of(causal(offset), dilated(2, 3, offset)), padding(rng.random(m) < 0.7),
        all_of(causal(), padding(np.arange(m) > m // 3)), prefix(2, offset), given_mask(rng.random((n, m)) < 0.6),
        given_mask(rng.random((heads, n, m)) < 0.6), mask_function(lambda i, j: (i + j) % 3 != 0),
        all_of(window(4, offset), prefix(2, offset)).part(0, 1, m),
    ]  # fmt: skip
    mask = draw(st.sampled_from(every_mask))
    alibi = Alibi(rng.random(heads), offset)
    given = rng.normal(size=(heads, n, m))
    bias = draw(st.sampled_from([None, given, rng.normal(size=(1, 1, m)), alibi, BiasSum((given, alibi))]))
    rule = Rule(
        scale=float(draw(st.sampled_from([1.0, d**-0.5, 3.0]))),
        softcap=draw(st.sampled_from([None, 2.0])),
        bias=bias,
        mask=mask,
        sink=draw(st.sampled_from([None, rng.normal(size=heads)])),
        softmax=draw(st.booleans()) if raw else True,
    )
    return Problem(
        rng.normal(size=(heads, n, d)), rng.normal(size=(groups, m, d)), rng.normal(size=(groups, m, e)), rule
    )


def as_tensors(rule: Rule, tensor: Callable = torch.tensor) -> Rule:
    """The same rule for torch, or for the library whose arrays `tensor` makes."""

    def bias_of(bias):
        if isinstance(bias, BiasSum):
            return BiasSum([bias_of(part) for part in bias.parts])
        if isinstance(bias, Alibi):
            return Alibi(tensor(bias.slopes), bias.offset)
        return None if bias is None else tensor(bias)

    def mask_of(mask):
        found = {name: getattr(mask, name) for name in ("keys", "cells")}
        arrays = {name: tensor(x) for name, x in found.items() if x is not None and not callable(x)}
        return replace(mask, **arrays, parts=tuple(mask_of(part) for part in mask.parts))

    sink = None if rule.sink is None else tensor(rule.sink)
    return Rule(rule.scale, rule.softcap, bias_of(rule.bias), mask_of(rule.mask), sink, rule.softmax)
