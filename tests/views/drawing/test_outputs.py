"""Outputs larger than a screen are pooled, and wide lines are drawn in time that grows with them."""

import numpy as np
from rich.segment import Segment
from rich.style import Style

from attn_cli.views.drawing.cells import joined
from tests.program import attn

STYLES = [None, Style(bold=True), Style(bold=True), Style(dim=True)]


def test_runs_of_one_style_are_joined_as_by_rich() -> None:
    draws = np.random.default_rng(7).integers(0, len(STYLES), size=300)
    line = [Segment(str(at), STYLES[style]) for at, style in enumerate(draws)]
    assert list(joined(line)) == list(Segment.simplify(line))


def test_of_a_block_the_number_farthest_from_0_is_drawn(tmp_path: object) -> None:
    values = np.zeros((100, 200))
    values[:2], values[50, 7], values[50, 8] = [[0.25], [-4.5]], 3.5, -4.0
    np.save(f"{tmp_path}/v.npy", values)
    np.save(f"{tmp_path}/q.npy", np.eye(100) * 1000)  # every query takes its own value
    run = attn("compute", "--q", f"{tmp_path}/q.npy", "--v", f"{tmp_path}/v.npy", env={"COLUMNS": "80"})
    output = run.text[run.text.index("output") :].split("\n\n")[0].splitlines()
    assert output[0] == "output · 100 x 200 · cells -4.5 to 3.5 · farthest from 0 over 3 x 4"
    body = [line for line in output[3:] if "-4.5" not in line]
    assert len(body) == 34
    assert all(len(set(line[:50])) == 1 for line in body[:2])  # one level in the whole line
    spike = next(line for line in body if line.endswith(" 48-50"))
    assert spike[:4].strip() == "▓%"  # 3.5 in the cell of columns 4 to 7, -4 in the next
    assert not spike[4:50].strip()
