"""Folders of packed weights: their heads are those that transformers computes with these weights."""

from pathlib import Path

import pytest

from tests.packings import PACKINGS, TEXT, Packing, found
from tests.program import attn

_TRIED_BY_HAND = {"quanto, int8", "hqq, 4 bit", "torchao, int4", "GPTQ, 4 bit"}  # which pack or run nowhere here


@pytest.mark.parametrize("packing", [each for name, each in PACKINGS.items() if name not in _TRIED_BY_HAND], ids=str)
def test_packed_weights(packing: Packing, tmp_path: Path) -> None:
    if packing.package:
        pytest.importorskip(packing.package)
    differences = found(packing, tmp_path)
    assert differences.by_eager < 2e-6
    assert differences.by_hand is None or differences.by_hand < packing.rounding
    for command in ("heads", "top", "inspect"):
        run = attn(command, TEXT, "-m", tmp_path)
        assert (run.code, run.errors) == (0, ""), run.errors
