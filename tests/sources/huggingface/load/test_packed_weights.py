"""Folders of packed weights: their heads are those that transformers computes with these weights."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from attn_cli.errors import first_line
from tests.packings import PACKINGS, TEXT, Packing, found
from tests.program import attn

_OF_KERNELS = {"quanto, int8", "hqq, 4 bit", "torchao, int4", "GPTQ, 4 bit"}  # which pack or run on some machines alone


@pytest.mark.parametrize("packing", [PACKINGS[name] for name in sorted(_OF_KERNELS)], ids=str)
def test_packed_weights_where_a_kernel_runs(packing: Packing, tmp_path: Path) -> None:
    """Skipped where transformers itself has no kernel for them; where it has one, attn's weights are its own."""
    pytest.importorskip(packing.package)
    try:
        packing.save(tmp_path / "tried")
        AutoModelForCausalLM.from_pretrained(tmp_path / "tried")(torch.tensor([[1, 2, 3]]))
    except Exception as error:  # of any type: libraries of kernels raise all
        pytest.skip(f"no kernel for {packing}: {type(error).__name__}: {first_line(error)}")
    differences = found(packing, tmp_path / "packed")
    assert differences.by_eager < 2e-6
    assert differences.by_hand is None or differences.by_hand < packing.rounding


@pytest.mark.parametrize("packing", [each for name, each in PACKINGS.items() if name not in _OF_KERNELS], ids=str)
def test_packed_weights(packing: Packing, tmp_path: Path) -> None:
    if packing.package:
        pytest.importorskip(packing.package)
    differences = found(packing, tmp_path)
    assert differences.by_eager < 2e-6
    assert differences.by_hand is None or differences.by_hand < packing.rounding
    for command in ("heads", "top", "inspect"):
        run = attn(command, TEXT, "-m", tmp_path)
        assert (run.code, run.errors) == (0, ""), run.errors
