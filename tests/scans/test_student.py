"""Student's t against closed forms and published tables, and Holm's correction against its definition."""

import numpy as np
import pytest

from attn_cli.scans.results import ci_half_width, holm, two_sided_p

# Two-sided 5 % points, from the tables that textbooks print.
POINTS = {1: 12.706, 2: 4.303, 3: 3.182, 5: 2.571, 10: 2.228, 30: 2.042, 60: 2.000, 120: 1.980, 10**6: 1.960}


@pytest.mark.parametrize("freedom", POINTS)
def test_points_of_published_tables(freedom: int) -> None:
    assert ci_half_width(1.0, freedom + 1) * np.sqrt(freedom + 1) == pytest.approx(POINTS[freedom], abs=6e-4)
    assert two_sided_p(POINTS[freedom], freedom) == pytest.approx(0.05, abs=5e-5)


def test_ends_and_what_is_no_number() -> None:
    assert two_sided_p([np.inf, np.nan, 2.0, 0.0], [5, 5, 0, 5]).tolist() == pytest.approx(
        [0, np.nan, np.nan, 1], nan_ok=True
    )
    assert np.isnan(ci_half_width([1.0, 1.0], [1, 0])).all()
    assert ci_half_width(0.0, 9) == 0


def test_holm_is_the_smallest_level_at_which_each_would_be_refused() -> None:
    chances = np.random.default_rng(0).random(12) ** 4
    adjusted = holm(chances)
    for level in (0.001, 0.01, 0.05, 0.2, 0.9):
        refused, left = np.zeros(12, bool), 12
        for at in np.argsort(chances):
            if chances[at] > level / left:
                break
            refused[at], left = True, left - 1
        assert ((adjusted <= level) == refused).all()
    assert holm([np.nan, 0.01]).tolist() == pytest.approx([np.nan, 0.01], nan_ok=True)
