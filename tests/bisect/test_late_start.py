"""Passes for a layer's stations begin at it where its input is given, and nothing else is read of those before."""

from typing import Any

import numpy as np
import pytest

from attn_cli.model.stations import Station
from tests.bisect.cases import source_of
from tests.bisect.ports import llama

IDS = np.random.default_rng(6).integers(3, 60, 12).tolist()
AT, BEHIND = Station(2, "residual_in"), Station(2, "residual")


@pytest.mark.parametrize(("reads_more", "runs"), [(False, 0), (True, 1)])
def test_layers_before_the_wanted_one_run_only_where_more_is_read_of_them(reads_more: bool, runs: int) -> None:
    model = llama()
    layers: Any = model.model.layers
    kept: list[Any] = []
    if reads_more:
        layers[0].mlp.register_forward_hook(lambda module, args, output: kept.append(output))
        layers[2].mlp.register_forward_hook(lambda module, args, output: output + kept.pop())
    reference = source_of(model, "llama").reference()
    right: dict[Station, np.ndarray] = {}
    reference.run(IDS, {AT, BEHIND}, lambda at, x: right.update({at: x.copy()}))
    given = {AT: lambda: right[AT]}
    reference.run(IDS, {BEHIND}, lambda *_: None, given=given)  # the first time it is tried on a few tokens
    counts: list[int] = []
    layers[0].mlp.register_forward_hook(lambda *_: counts.append(1))
    late: dict[Station, np.ndarray] = {}
    reference.run(IDS, {BEHIND}, lambda at, x: late.update({at: x.copy()}), given=given)
    assert len(counts) == runs
    assert np.array_equal(late[BEHIND], right[BEHIND])
