"""Losses of sets: exact where nothing interacts, learned where heads stand in for each other, saturating."""

import numpy as np
import pytest

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
