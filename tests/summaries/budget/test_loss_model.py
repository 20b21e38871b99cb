"""Losses of sets: exact where nothing interacts, learned where heads stand in for each other, saturating."""

import numpy as np
import pytest

from attn_cli.summaries.budget.likeness import SHAPES, Likeness, LikenessShape
from attn_cli.summaries.budget.loss_model import LossModel
from attn_cli.summaries.budget.plan import pilots


def sets_of(count: int, n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random((count, n)) < 0.5


def test_where_effects_add_up_the_sum_is_the_prediction() -> None:
    singles = np.random.default_rng(0).normal(0.01, 0.02, (12, 50))
    model, measured, unseen = LossModel(singles), sets_of(20, 12, 1), sets_of(20, 12, 2)
    assert model.predict(unseen) == pytest.approx(unseen @ singles.mean(1))
    model.add(measured, measured @ singles.mean(1))
    assert model.predict(unseen) == pytest.approx(unseen @ singles.mean(1), abs=1e-6)


def test_no_pilot_runs_twice_or_is_a_single_unit() -> None:
    sets = pilots(np.random.default_rng(0).normal(0.1, 0.1, 7), 60)
    assert len(np.unique(sets, axis=0)) == 60 and sets.sum(1).min() == 2
    assert sets[0].all()


def test_heads_that_stand_in_for_each_other_are_learned() -> None:
    draw = np.random.default_rng(0)
    singles = draw.exponential(0.05, (16, 80))
    pairs = np.triu(draw.exponential(0.05, (16, 16)) * (draw.random((16, 16)) < 0.2), 1)

    def truth(sets: np.ndarray) -> np.ndarray:
        return sets @ singles.mean(1) + np.einsum("si,ij,sj->s", sets, pairs, sets)

    model, unseen = LossModel(singles), sets_of(60, 16, 2)
    summed = model.predict(unseen)
    measured = pilots(model.means, 32)
    model.add(measured, truth(measured))
    error, of_sum = (float(((x - truth(unseen)) ** 2).mean()) for x in (model.predict(unseen), summed))
    assert error < 0.1 * of_sum


def test_tokens_that_are_lost_already_are_not_lost_twice() -> None:
    singles = np.zeros((10, 40))
    singles[:, :4] = 6.0  # every head carries the same four tokens

    def truth(sets: np.ndarray) -> np.ndarray:
        return np.where(sets.any(1), 0.6, 0.0)

    model, measured = LossModel(singles), pilots(singles.mean(1), 16)
    model.add(measured, truth(measured))
    unseen = sets_of(30, 10, 5)
    assert np.abs(model.predict(unseen) - truth(unseen)).max() < 0.2
    assert np.abs(unseen @ singles.mean(1) - truth(unseen)).max() > 2


def test_pilots_are_all_units_once_and_of_every_size() -> None:
    sets = pilots(np.linspace(0, 1, 40), 32)
    assert sets[0].all() and not sets[1:].all(axis=1).all()
    sizes = sets.sum(1)
    assert sizes.min() < 8 and sizes.max() == 40
    assert np.array_equal(sets, pilots(np.linspace(0, 1, 40), 32))
    cheap = np.concatenate([own.nonzero()[0] for own in sets[2::2] if own.sum() < 30])
    assert cheap.mean() < 18  # by turns cheap ones first


def test_slopes_say_what_units_add_beside_others() -> None:
    draw = np.random.default_rng(3)
    n = 24
    singles = draw.exponential(0.05, (n, 60))
    pairs = np.triu(draw.normal(0, 0.02, (n, n)), 1)

    def truth(sets: np.ndarray) -> np.ndarray:
        return sets @ singles.mean(1) + np.einsum("si,ij,sj->s", sets, pairs, sets)

    def slopes(sets: np.ndarray) -> np.ndarray:
        return singles.mean(1) + sets @ (pairs + pairs.T)

    measured, unseen = sets_of(28, n, 1), sets_of(60, n, 2)
    errors = []
    for sloped in (0, 16):
        model = LossModel(singles)
        model.add(measured, truth(measured))
        model.add_slopes(measured[:sloped], slopes(measured[:sloped]))
        missed = model.predict(unseen) - truth(unseen)
        errors.append(float(np.sqrt((missed**2).mean())))
        assert 0.3 < model.error / errors[-1] < 3  # it says how far off it is
    assert errors[1] < 0.35 * errors[0]


@pytest.mark.parametrize("shape", SHAPES)
def test_likeness_of_slopes_is_the_derivative_of_that_of_sets(shape: LikenessShape) -> None:
    draw = np.random.default_rng(4)
    likeness = Likeness(draw.normal(0.5, 1, (5, 30)), draw.normal(0, 1, (4, 5)))
    a, b = draw.random((3, 5)), draw.random((2, 5))
    step = 1e-4 * np.eye(5)
    by_b = np.stack([likeness.of_sets(a, b + x, shape) - likeness.of_sets(a, b - x, shape) for x in step], -1) / 2e-4
    assert likeness.of_slopes(a, b, shape) == pytest.approx(by_b, abs=1e-6)
    both = np.concatenate([a, b])
    by_both = np.stack([likeness.of_slopes(both + x, both, shape) - likeness.of_slopes(both - x, both, shape)
                        for x in step], 1) / 2e-4  # fmt: skip
    assert likeness.between_slopes(both, shape) == pytest.approx(by_both, abs=1e-6)
