"""Caches of other kinds: sliding windows, learned sinks, latent vectors, recurrent layers; no cache of tokens."""

from typing import Any

import numpy as np
import pytest
import torch

from attn_cli.errors import InputError
from attn_cli.summaries.budget.asked import Asked
from attn_cli.summaries.budget.plan import BudgetTarget
from attn_cli.summaries.budget.pricing import begin_pricing
from tests.architectures.knock import speaking
from tests.architectures.tiny import tiny_model
from tests.summaries.budget.planted import prompt_of_ids

TOKENS, HELD, KEPT = 72, 16, 10
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
    ids = np.random.default_rng(0).integers(3, 50, TOKENS + HELD).tolist()
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


@pytest.mark.parametrize("kind", ["bloom", "falcon"])
def test_windows_of_attention_in_a_model_s_own_code_are_those_of_its_softmax(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids, model = np.random.default_rng(0).integers(3, 50, TOKENS).tolist(), tiny_model(kind, "tiny")
    source, prompt = speaking(model), prompt_of_ids(ids)
    pricing = begin_pricing(source, [("", prompt)], Asked(window=8, first=2, target=None))
    answer = pricing.answer()
    assert answer.run_mode == "cache" and not answer.rounded
    generating, first = source.loaded.generating, TOKENS - pricing.sample.scored - 1
    assert generating is not None
    usual, calls = torch.nn.functional.softmax, 0
    taken: tuple[int, int] | None = None

    def softmax(scores: torch.Tensor, *arguments: Any, **options: Any) -> torch.Tensor:
        nonlocal calls
        if taken is not None and calls == taken[0]:
            i, j = torch.arange(TOKENS)[:, None], torch.arange(TOKENS)[None]
            far = (i >= first) & (j <= i - 8) & (j >= 2)
            heads = slice(None) if pricing.heads[-1].place.head == 0 else slice(taken[1], taken[1] + 1)
            scores = scores.clone()
            scores.reshape(1, -1, TOKENS, TOKENS)[:, heads].masked_fill_(far, torch.finfo(scores.dtype).min)
        calls += 1
        return usual(scores, *arguments, **options)

    monkeypatch.setattr(torch.nn.functional, "softmax", softmax)

    def bits(unit: tuple[int, int] | None) -> float:
        nonlocal taken, calls
        taken, calls = unit, 0
        with torch.no_grad():
            logits = generating(input_ids=torch.tensor([ids]), use_cache=False).logits[0, first:-1]
        log_p = logits.double().log_softmax(-1)
        return float(-log_p[range(len(log_p)), ids[first + 1 :]].mean() / np.log(2))

    whole = bits(None)
    for unit in answer.units:
        assert unit.bits == pytest.approx(bits((unit.place.layer, unit.place.head)) - whole, abs=2e-5)
    monkeypatch.undo()
    with pytest.raises(InputError, match="in the model's own code, where its weights are seen and no keys"):
        begin_pricing(source, [("", prompt)], Asked(windows=False, keys="q8_0"))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("mamba", "no chosen layer attends"),
        ("bert", "an encoder reads its text at once"),
        ("bert_with_head", "rows see what comes after them: such a model keeps no cache"),
    ],
)
def test_without_a_cache_of_tokens_a_line_says_so(kind: str, words: str) -> None:
    ids = np.random.default_rng(0).integers(3, 50, 60).tolist()
    source = speaking(tiny_model(kind.removesuffix("_with_head"), "tiny"))
    if kind == "bert":
        source.loaded = type(source.loaded)(source.loaded.model, None, source.about, source.loaded.origin, None)
    with pytest.raises(InputError, match=words):
        begin_pricing(source, [("", prompt_of_ids(ids))], ASKED)
