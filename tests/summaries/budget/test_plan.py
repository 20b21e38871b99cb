"""Plans: a planted model sorted without a mistake, targets of bits and of memory, caches counted by hand."""

from dataclasses import replace

import numpy as np
import pytest

from attn_cli.errors import InputError
from attn_cli.model.intervention import AttentionLayer
from attn_cli.model.kv_cache import CacheChange, KeyHead
from attn_cli.selection import ALL
from attn_cli.summaries.budget.answer import Budget
from attn_cli.summaries.budget.asked import Asked
from attn_cli.summaries.budget.plan import BudgetTarget, CachePlanner
from attn_cli.summaries.budget.pricing import Pricing, begin_pricing, budget
from attn_cli.summaries.budget.sample import changes_of
from attn_cli.summaries.budget.units import CachedHead, Unit, cached_heads, cached_share, rounded, windows
from attn_cli.summaries.budget.windows import KeptKeys
from tests.architectures.knock import speaking
from tests.summaries.budget.oracle import bits_lost, small_llama
from tests.summaries.budget.planted import COPIES, HEADS, planted_model, prompt_of_ids, repeated_words

LLAMA_TOKENS, HELD = 200, 25
IDS = np.random.default_rng(0).integers(0, 61, LLAMA_TOKENS).tolist()


@pytest.fixture(scope="module")
def planted() -> Budget:
    texts = [prompt_of_ids(repeated_words(640, seed=seed)) for seed in (1, 2, 3)]
    return budget(
        speaking(planted_model()),
        texts,
        Asked(window=16, scored=24),
        checks=[prompt_of_ids(repeated_words(600, seed=4))],
    )


@pytest.fixture(scope="module")
def pricing() -> Pricing:
    return begun(IDS)


def begun(ids: list[int]) -> Pricing:
    return begin_pricing(speaking(small_llama(layers=3)), [("", prompt_of_ids(ids))], Asked(window=24))


def test_a_planted_model_is_sorted_without_a_mistake(planted: Budget) -> None:
    assert [unit.bits > 1 for unit in planted.units] == [head == COPIES for head in range(HEADS)]
    assert [unit.weight_behind > 0.9 for unit in planted.units] == [head == COPIES for head in range(HEADS)]  # type: ignore[operator]
    plan = planted.plan
    assert plan is not None
    assert plan.plan.taken.tolist() == [head != COPIES for head in range(HEADS)]
    assert plan.is_within and plan.plan.holds
    assert plan.plan.cache == pytest.approx((616 + 10 * 20) / (11 * 616))  # 24 tokens are held back


def test_three_texts_show_their_spread_and_a_fourth_is_beside_them(planted: Budget) -> None:
    assert all(unit.spread is not None and len(unit.by_text) == 3 for unit in planted.units)
    assert planted.plan is not None and len(planted.plan.by_text) == 3
    (checked,) = planted.plan.checked
    assert checked.text.tokens == 600
    assert checked.bits == pytest.approx(0, abs=1e-4) == checked.by_weight


def test_a_plan_s_runs_are_the_plain_run_with_dense_masks(pricing: Pricing) -> None:
    model = small_llama(layers=3)
    answer = pricing.answer()
    assert answer.plan is not None
    changes = changes_of([priced.unit for priced, own in answer.planned if own]).cache
    assert changes
    (held,) = answer.plan.held
    assert (held.text.tokens, held.text.scored) == (LLAMA_TOKENS, HELD)
    sample = IDS[: LLAMA_TOKENS - HELD]
    own = bits_lost(model, sample, len(sample) - pricing.sample.scored - 1, changes)
    assert answer.plan.plan.bits == pytest.approx(own, abs=2e-5)
    assert held.bits == pytest.approx(bits_lost(model, IDS, LLAMA_TOKENS - HELD - 1, changes), abs=2e-5)
    assert held.bits != pytest.approx(own, abs=1e-3)
    assert answer.plan.is_within == (answer.plan.plan.bits <= 0.01)


def test_what_is_held_back_changes_no_price_and_no_plan(pricing: Pricing) -> None:
    other = [*IDS[:-HELD], *reversed(IDS[-HELD:])]
    first, second = pricing.answer(), begun(other).answer()
    assert [unit.bits for unit in first.units] == [unit.bits for unit in second.units]
    assert first.plan is not None and second.plan is not None
    assert first.plan.plan.taken.tolist() == second.plan.plan.taken.tolist()
    assert first.plan.held[0].bits != second.plan.held[0].bits


def test_a_target_of_memory(pricing: Pricing) -> None:
    half = replace(pricing, asked=replace(pricing.asked, target=BudgetTarget(None, 0.5))).answer().plan
    assert half is not None and half.is_within
    assert half.plan.cache <= 0.5
    least = min(half.plan.taken.sum(), 6)
    assert half.plan.cache > 0.5 - (1 - 28 / LLAMA_TOKENS) / 6  # one window fewer would be too many keys
    assert least >= 1


def test_caches_are_counted_by_hand() -> None:
    layers = [
        AttentionLayer(0, "self", 2, (0, 0, 1, 1), seen=100, sizes=(64, 32)),
        AttentionLayer(1, "self", 2, (0, 0, 1, 1), seen=40, sizes=(64, 32)),
    ]
    heads = cached_heads(layers, ALL, 100)
    assert [(head.place.layer, head.place.head, head.keys) for head in heads] == [
        (0, 0, 100),
        (0, 1, 100),
        (1, 0, 40),
        (1, 1, 40),
    ]
    narrow = windows(heads, KeptKeys(30, 10))
    assert [unit.place for unit in narrow] == [KeyHead(0, 0), KeyHead(0, 1)]  # the others see no more
    assert cached_share(heads, []) == 1
    assert cached_share(heads, narrow[:1]) == pytest.approx((40 + 100 + 40 + 40) / 280)
    keys, values = rounded(heads, "q4_0", "q8_0")[:2]
    whole = 280 * 96 * 16
    assert cached_share(heads, [keys]) == pytest.approx(1 - 200 * 64 * (16 - 4.5) / whole)
    assert cached_share(heads, [keys, values, narrow[0]]) == pytest.approx(
        (140 * (64 * 4.5 + 32 * 8.5) + 80 * 96 * 16) / whole
    )


def test_latent_vectors_are_one_cache_of_a_layer() -> None:
    layer = AttentionLayer(3, "self", 4, (0, 1, 2, 3), seen=50, latent=24, sizes=(32, 16))
    (head,) = cached_heads([layer], ALL, 50)
    assert head == CachedHead(KeyHead(3, 0), True, 50, (24, 0))
    (unit,) = windows([head], KeptKeys(8, 2))
    assert unit == Unit("window", KeyHead(3, 0), CacheChange(3, window=8, first=2))
    with pytest.raises(InputError, match="caches latent vectors"):
        rounded([head], "q8_0", "")


def test_windows_alike_are_one_change() -> None:
    heads = cached_heads([AttentionLayer(0, "self", 1, (0, 1, 2), seen=90, sizes=(8, 8))], ALL, 90)
    (change,) = changes_of(windows(heads, KeptKeys(4, 1))).cache
    assert change == CacheChange(0, key_heads=(0, 1, 2), window=4, first=1)


def test_all_sets_of_few_units_are_run(pricing: Pricing) -> None:
    sample = pricing.sample
    planner = CachePlanner(sample, pricing.heads, pricing.units, sample.losses([[unit] for unit in pricing.units]))
    planner.learn()
    assert len({own.tobytes() for own in planner.model.measured}) == 2 ** len(pricing.units) - 1
    assert (plan := planner.run(planner.model.measured[5])).error == 0 and plan.holds  # it had run
    sets = np.random.default_rng(5).random((9, len(pricing.units))) < 0.5
    run = sample.losses([planner.chosen(own) for own in sets]).mean(1)
    assert planner.model.predict(sets) == pytest.approx(run, abs=2e-3)


def test_random_plans_are_predicted_better_than_by_their_sum() -> None:
    ids = np.random.default_rng(0).integers(0, 61, LLAMA_TOKENS).tolist()
    asked = Asked(window=24, scored=64)
    pricing = begin_pricing(speaking(small_llama(layers=5)), [("", prompt_of_ids(ids))], asked)
    sample = pricing.sample
    planner = CachePlanner(sample, pricing.heads, pricing.units, sample.losses([[unit] for unit in pricing.units]))
    planner.learn()
    sets = np.random.default_rng(5).random((40, len(pricing.units))) < 0.5
    run = sample.losses([planner.chosen(own) for own in sets]).mean(1)
    predicted, summed = planner.model.predict(sets), sets @ planner.model.means
    missed, missed_by_sum = (float(((x - run) ** 2).mean()) for x in (predicted, summed))
    assert missed < 0.2 * missed_by_sum
    assert 0.4 < planner.model.error / missed**0.5 < 2.5
