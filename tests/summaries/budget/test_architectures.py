"""Caches of other kinds: sliding windows, learned sinks, latent vectors, recurrent layers; no cache of tokens."""

import numpy as np
import pytest

from attn_cli.errors import InputError
from attn_cli.summaries.budget.asked import Asked
from attn_cli.summaries.budget.plan import BudgetTarget
from attn_cli.summaries.budget.pricing import begin_pricing
from tests.architectures.knock import speaking
from tests.architectures.tiny import tiny_model
from tests.summaries.budget.planted import prompt_of_ids

TOKENS, KEPT = 72, 10
ASKED = Asked(window=KEPT - 2, first=2, target=BudgetTarget(None, 0.0))


@pytest.mark.parametrize(
    ("kind", "seen", "mode"),
    [
        ("gemma2", {0: 4, 1: TOKENS}, "cache"),  # softcaps, and windows of its own in every other layer
        ("gpt_oss", {0: 4, 1: TOKENS}, "cache"),  # learned sinks
        ("qwen3_next", {1: TOKENS}, "cache"),  # recurrent layers between those that attend
        ("deepseek_v3", {0: TOKENS, 1: TOKENS}, "cache"),
    ],
)
def test_what_is_cached_is_priced(kind: str, seen: dict[int, int], mode: str) -> None:
    ids = np.random.default_rng(0).integers(3, 50, TOKENS).tolist()
    pricing = begin_pricing(speaking(tiny_model(kind, "tiny")), [("", prompt_of_ids(ids))], ASKED)
    assert {head.place.layer: head.keys for head in pricing.heads} == seen
    assert all(head.whole_layer == (kind == "deepseek_v3") for head in pricing.heads)
    assert {unit.place.layer for unit in pricing.units} == {layer for layer, keys in seen.items() if keys > KEPT}
    answer = pricing.answer()
    assert answer.run_mode == mode
    assert answer.plan is not None and answer.plan.plan.taken.all()
    small = sum(min(keys, KEPT) for keys in seen.values()) / sum(seen.values())
    assert answer.plan.plan.cache == pytest.approx(small)
    assert abs(answer.plan.plan.bits) > 4 * answer.noise


@pytest.mark.parametrize(
    ("kind", "words"), [("mamba", "no chosen layer attends"), ("bert", "an encoder reads its text at once")]
)
def test_without_a_cache_of_tokens_a_line_says_so(kind: str, words: str) -> None:
    ids = np.random.default_rng(0).integers(3, 50, TOKENS).tolist()
    source = speaking(tiny_model(kind, "tiny"))
    if kind == "bert":
        source.loaded = type(source.loaded)(source.loaded.model, None, source.about, source.loaded.origin, None)
    with pytest.raises(InputError, match=words):
        begin_pricing(source, [("", prompt_of_ids(ids))], ASKED)
