"""A picture is there at once, or coarse until it is whole; what nobody looks at any more is given up."""

import threading

import numpy as np
import pytest

from attn_cli.explore import answers
from attn_cli.explore.answers import Answers
from attn_cli.explore.grids import HeadGrid
from attn_cli.explore.window import MatrixWindow, Space, forms, window_at
from tests.explore.recordings import recording
from tests.program import SHORT


def whole_window() -> tuple[HeadGrid, MatrixWindow]:
    grid = HeadGrid(recording(n=300).layers[0], 1)
    space = Space(20, 64, True)
    return grid, window_at(forms(300, 300, space)[0], (300, 300), space, (0, 0), (0, 0))


def test_little_is_computed_at_once_and_kept() -> None:
    grid, window = whole_window()
    few = Answers()
    picture = few.picture("a", grid, window)
    assert not picture.coarse
    assert few.picture("a", grid, window) is picture
    assert few.picture("b", grid, window) is not picture


def test_much_is_coarse_until_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "AT_ONCE", 5000)
    grid, window = whole_window()
    done = threading.Event()
    many, running = Answers(done.set), set(threading.enumerate())
    coarse = many.picture("a", grid, window)
    assert coarse.coarse
    expected = grid.pooled(slice(0, 300), slice(0, 300), window.form[:2])
    assert coarse.values.shape == expected.shape
    finite = np.isfinite(coarse.values)
    assert finite.any()
    assert np.nanmax(coarse.values) >= 0.9 * np.nanmax(expected)
    assert not set(threading.enumerate()) - running  # it is drawn first
    many.refine()
    while many.picture("a", grid, window).coarse:
        assert done.wait(SHORT)
        done.clear()
    np.testing.assert_allclose(many.picture("a", grid, window).values, expected, rtol=1e-5)


def test_what_is_not_looked_at_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "AT_ONCE", 5000)
    grid, window = whole_window()
    started, go = threading.Event(), threading.Event()
    strips = []

    class Slow(HeadGrid):
        def pooled(self, rows: slice, keys: slice, block: tuple[int, int], *, scores: bool = False) -> np.ndarray:
            strips.append(rows)
            started.set()
            assert go.wait(SHORT)
            return super().pooled(rows, keys, block, scores=scores)

    many = Answers()
    many.picture("slow", Slow(grid.layer, 0), window)
    many.refine()
    assert started.wait(SHORT)
    monkeypatch.setattr(answers, "AT_ONCE", 2**20)
    many.picture("other", grid, window)
    go.set()
    for thread in threading.enumerate():
        if thread.name == "answers":
            thread.join(SHORT)
    assert len(strips) == 1


def test_what_fails_in_the_thread_is_raised_by_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "AT_ONCE", 5000)
    grid, window = whole_window()
    done = threading.Event()

    class Broken(HeadGrid):
        def pooled(self, rows: slice, keys: slice, block: tuple[int, int], *, scores: bool = False) -> np.ndarray:
            raise ZeroDivisionError

    many = Answers(done.set)
    many.picture("a", Broken(grid.layer, 0), window)
    many.refine()
    assert done.wait(SHORT)
    assert isinstance(many.error, ZeroDivisionError)
