"""Plans as engines read them: read back as their own loaders do, and sentences where an engine can't."""

import io
import json
from collections.abc import Sequence

import numpy as np
import pytest

from attn_cli.kv_cache import CacheChange, KeyHead
from attn_cli.summaries.budget.answer import Budget, PricedPlan, PricedUnit, TextSizes
from attn_cli.summaries.budget.engines import engine_files
from attn_cli.summaries.budget.plan import BudgetTarget, CachePlan
from attn_cli.summaries.budget.units import Taken, Unit
from attn_cli.summaries.budget.windows import KeptKeys

LAYERS, HEADS = 3, 2


def budget_of(kinds: Sequence[Taken], taken: Sequence[bool], keys: str = "", values: str = "") -> Budget:
    """A budget of 3 layers of 2 key heads with a plan."""
    units = []
    for kind in kinds:
        for layer in range(LAYERS):
            if kind == "window":
                units += [
                    Unit(kind, KeyHead(layer, x), CacheChange(layer, key_heads=(x,), window=9)) for x in range(HEADS)
                ]
            else:
                units.append(Unit(kind, KeyHead(layer, 0), CacheChange(layer, **{kind: "q8_0"})))  # type: ignore[arg-type]
    bits = np.random.default_rng(0).random(len(units))
    priced = tuple(PricedUnit(unit, float(own), (float(own),)) for unit, own in zip(units, bits, strict=True))
    plan = PricedPlan(CachePlan(np.array(taken), 0.4, 0.0, 0.0, np.zeros(3)), BudgetTarget(0.1, None), (0.0,))
    return Budget(
        (TextSizes("", 100, 10, 2.0),), LAYERS, LAYERS * HEADS, 2.0, KeptKeys(256, 4), None, keys, values, 0.0, 1.0,
        "cache", "", priced, (), plan,
    )  # fmt: skip


def test_duo_attention_reads_the_heads_that_keep_all() -> None:
    taken = [True, False, True, True, False, True]
    files = engine_files(budget_of(["window"], taken))
    # as load_attn_pattern and sparsify_attention_heads of duo_attn/utils.py do
    heads = np.clip(np.loadtxt(io.StringIO(files["full_attention_heads.tsv"]), dtype=float, delimiter="\t"), 0, 1)
    assert heads.shape == (LAYERS, HEADS)
    kept = ~np.array(taken).reshape(LAYERS, HEADS)
    assert np.array_equal(heads >= 0.5, kept)
    noisy = heads + np.random.default_rng(0).uniform(0, 1e-6, heads.shape)
    assert np.array_equal(noisy >= np.quantile(noisy, np.mean(taken)), kept)
    assert json.loads(files["config.json"]) == {"sink_size": 4, "recent_size": 256}


@pytest.mark.parametrize("taken", [[True, False, True, True, False, True], [True] * 6, [False] * 6])
def test_kvpress_windows_the_lowest_scores(taken: list[bool]) -> None:
    press = json.loads(engine_files(budget_of(["window"], taken))["kvpress.json"])
    scores = np.array(press["head_scores"])
    # as DuoAttentionPress does after it has read head scores
    mask = np.zeros(scores.shape, dtype=bool)
    lowest = np.argsort(scores, axis=None)[: round(scores.size * press["head_compression_ratio"])]
    mask[np.unravel_index(lowest, scores.shape)] = True
    assert mask.reshape(-1).tolist() == taken


def test_llama_cpp_rounds_all_layers_or_none() -> None:
    both = budget_of(["keys", "values"], [True] * 6, "q8_0", "q4_0")
    files = engine_files(both)
    assert set(files) == {"engines.txt"}
    assert "llama.cpp: --cache-type-k q8_0 --cache-type-v q4_0 --flash-attn on\n" in files["engines.txt"]
    assert "vLLM: --kv-cache-dtype is for keys and values alike" in files["engines.txt"]
    some = engine_files(budget_of(["keys"], [True, False, True], "q8_0"))["engines.txt"]
    assert "--cache-type-k is for all layers, and the plan keeps the keys of layers 1 whole" in some
    assert "--cache-type-k has no kivi2" in engine_files(budget_of(["keys"], [True] * 3, "kivi2"))["engines.txt"]


def test_vllm_skips_layers() -> None:
    taken = [True, True, False, False, True, True]
    lines = engine_files(budget_of(["keys", "values"], taken, "fp8_e4m3", "fp8_e4m3"))["engines.txt"]
    assert "vLLM: --kv-cache-dtype fp8_e4m3 --kv-cache-dtype-skip-layers 0 2\n" in lines


def test_windows_of_whole_layers_have_no_heads_to_name() -> None:
    budget = budget_of(["window"], [True] * 6)
    units = tuple(
        PricedUnit(Unit("window", x.place, CacheChange(x.place.layer, window=9)), 0.1, ()) for x in budget.units
    )
    files = engine_files(Budget(**{**vars(budget), "units": units}))
    assert set(files) == {"engines.txt"}
    assert "this plan has others" in files["engines.txt"]
