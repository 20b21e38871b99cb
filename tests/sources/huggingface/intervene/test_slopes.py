"""Windows mixed in by shares: at 0 and 1 the runs themselves, between them their derivatives."""

import numpy as np
import pytest

from attn_cli.model.intervention import Experiment, Intervention
from attn_cli.model.kv_cache import CacheChange
from attn_cli.sources.huggingface.intervene import experiment as of_experiment
from attn_cli.summaries.budget.scored_text import scored_text
from tests.architectures.knock import speaking
from tests.architectures.tiny import tiny_model
from tests.summaries.budget.planted import prompt_of_ids

TOKENS, SCORED = 60, 16
WINDOWS = [CacheChange(0, key_heads=(0,), window=2, first=1), CacheChange(1, key_heads=(0,), window=5, first=2),
           CacheChange(1, key_heads=(1,), window=3)]  # fmt: skip
OF_LAYERS = [CacheChange(layer, window=4, first=1) for layer in (0, 1)]


def experiment_of(kind: str) -> Experiment:
    ids = np.random.default_rng(0).integers(3, 50, TOKENS).tolist()
    return scored_text(speaking(tiny_model(kind, "tiny")), prompt_of_ids(ids), SCORED).experiment


@pytest.mark.parametrize("kind", ["llama", "gemma2", "gpt2", "gpt_oss", "deepseek_v3"])
def test_whole_shares_are_runs_and_slopes_their_differences(kind: str) -> None:
    experiment, windows = experiment_of(kind), OF_LAYERS if kind == "deepseek_v3" else WINDOWS
    for taken in [*np.eye(len(windows), dtype=bool).tolist(), [True] * len(windows), [False] * len(windows)]:
        slopes = experiment.slopes(windows, [float(own) for own in taken])
        assert slopes is not None
        changes = tuple(change for change, own in zip(windows, taken, strict=True) if own)
        (outcome,) = experiment.outcomes([Intervention(cache=changes)])
        assert slopes.bits == pytest.approx(outcome.bits, abs=1e-4)
    shares = np.array([0.5, 0.2, 0.9][: len(windows)]) * (0.3 if kind == "deepseek_v3" else 1)  # one choice of experts
    between = experiment.slopes(windows, shares.tolist())
    assert between is not None
    for at, slope in enumerate(between.by_share):
        step = np.eye(len(shares))[at] * 0.01
        up, down = (experiment.slopes(windows, (shares + x).tolist()) for x in (step, -step))
        assert up is not None and down is not None
        assert slope == pytest.approx((up.bits - down.bits) / 0.02, rel=0.01, abs=5e-3)
    assert max(map(abs, between.by_share)) > 1e-2


def test_without_a_cache_or_for_long_texts_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = experiment_of("llama")
    monkeypatch.setattr(of_experiment, "_BYTES", 1000)
    assert experiment.slopes(WINDOWS, [1.0, 1.0, 1.0]) is None
    monkeypatch.undo()
    experiment._runner.calls.forget_past()  # type: ignore[attr-defined]
    assert experiment.slopes(WINDOWS, [1.0, 1.0, 1.0]) is None
