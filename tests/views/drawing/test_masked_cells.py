"""A weight of 0 and a masked cell never look alike."""

import numpy as np
import pytest

from attn_cli.views.drawing.heatmap import HeatMap
from attn_cli.views.drawing.screen import Screen
from tests.program import attn


@pytest.mark.parametrize("depth", ["none", "16", "256", "truecolor"])
@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("n", [8, 30, 60])
def test_a_cell_of_0_and_a_masked_one(n: int, ascii_only: bool, depth: str) -> None:
    values = np.eye(n) + np.triu(np.full((n, n), -np.inf), 1)
    labels = [f"w{at}" for at in range(n)]
    screen = Screen(90, depth, ascii_only)
    lines = HeatMap(values, "weights", "weights", labels, labels, screen).lines()
    row = next(line for line in lines if line[-1].text.strip() == f"{n // 2} w{n // 2}")
    cells = [(segment.text, segment.style) for segment in row]
    zero, masked = cells[n // 4], cells[n - 1]
    assert zero != masked
    assert masked[0].strip() == ""


@pytest.mark.parametrize("mask", ["causal", "window"])
def test_keys_outside_a_window_are_blank(mask: str) -> None:
    masks = ["--mask", "causal", *(["--mask", "window:3"] if mask == "window" else [])]
    run = attn("compute", "the cat sat on the mat", *masks, env={"NO_COLOR": "1", "COLUMNS": "80"})
    lines = run.lines
    start = next(at for at, line in enumerate(lines) if "weights = softmax ·" in line)
    (row,) = [line for line in lines[start : start + 9] if line.endswith("4 the")]
    first = row[:8].strip()
    assert (first == "") == (mask == "window")
