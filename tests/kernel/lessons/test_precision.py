"""Rounding to a precision is torch's; numbers that were widened are recognised."""

import numpy as np
import pytest
import torch

from attn_cli.kernel.lessons.precision import PRECISIONS, precision_of

TORCH = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16,
         "float8_e4m3": torch.float8_e4m3fn, "float8_e5m2": torch.float8_e5m2}  # fmt: skip
NUMBERS = np.random.default_rng(1).normal(size=2000) * 10.0 ** np.random.default_rng(2).integers(-4, 2, 2000)


@pytest.mark.parametrize("name", TORCH)
def test_rounding_is_torchs(name: str) -> None:
    expected = torch.from_numpy(NUMBERS).float().to(TORCH[name]).double().numpy()
    assert np.array_equal(PRECISIONS[name].rounded(NUMBERS.astype(np.float32).astype(np.float64)), expected)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_widened_numbers_are_recognised(name: str) -> None:
    assert precision_of(torch.from_numpy(NUMBERS).to(TORCH[name]).float().numpy()).name == name


def test_few_round_numbers_and_full_precision_are_not_taken_for_widened() -> None:
    assert precision_of(np.float32([[0.5, 1, 2, 3]])).name == "float32"
    assert precision_of(NUMBERS.astype(np.float32)).name == "float32"
    assert precision_of(NUMBERS).name == "float64"
    assert precision_of(NUMBERS.astype(np.float16)).name == "float16"
