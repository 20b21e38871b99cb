"""Maps beside each other: within the screen, whole, each as it is alone; in files one below the other."""

import numpy as np
import pytest

from attn_cli.views.drawing.console import printed
from attn_cli.views.drawing.heatmap import HeatMap
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.side_by_side import arranged


def _drawn(sizes: list[tuple[int, int]], screen: Screen) -> list[str]:
    rng = np.random.default_rng(0)
    maps = [
        HeatMap(rng.random((n, m)), "weights", f"map {at} · weights", [f"r{i}" for i in range(n)],
                [f"c{j}" for j in range(m)], screen)
        for at, (n, m) in enumerate(sizes)
    ]  # fmt: skip
    return printed(arranged(maps, screen), screen).split("\n")


@pytest.mark.parametrize("width", [40, 80, 120, 200])
@pytest.mark.parametrize("size", [(1, 1), (3, 3), (5, 12), (16, 16), (30, 30)])
def test_maps_of_one_size_are_whole_and_within_the_screen(width: int, size: tuple[int, int]) -> None:
    on_terminal = _drawn([size] * 5, Screen(width, height=24))
    in_file = _drawn([size] * 5, Screen(width))
    assert max(map(len, on_terminal)) <= width
    assert len(on_terminal) <= len(in_file)
    titles = [title for line in on_terminal for title in line.split("map ")[1:]]
    assert [title[0] for title in titles] == list("01234")
    labels = [label for line in on_terminal for label in line.split() if label == "r0"]
    assert len(labels) == 5


def test_rows_of_maps_stand_at_one_height_and_files_have_one_below_the_other() -> None:
    side_by_side = _drawn([(2, 2)] * 2 + [(3, 3)], Screen(80, height=24))
    assert [line.count("0 r0") for line in side_by_side if "0 r0" in line] == [2, 1]
    below = _drawn([(2, 2)] * 2, Screen(80))
    assert [line.count("0 r0") for line in below if "0 r0" in line] == [1, 1]
    assert [line for line in below if "map" in line] == [
        "map 0 · weights · 2 x 2 · min 0.0165 max 0.637 · rows = queries, columns = keys",
        "map 1 · weights · 2 x 2 · min 0.607 max 0.913 · rows = queries, columns = keys",
    ]
