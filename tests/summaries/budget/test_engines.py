"""Plans as engines read them: read back as their own loaders do, and sentences where an engine can't."""

import json
import sys
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pytest import MonkeyPatch

from attn_cli.model.kv_cache import CacheChange, KeyHead
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
    plan = PricedPlan(CachePlan(np.array(taken), 0.4, 0.0, 0.0, 0.0, np.zeros(3)), BudgetTarget(0.1, None), (0.0,))
    return Budget(
        (TextSizes("", 100, 10, 2.0),), LAYERS, LAYERS * HEADS, 2.0, KeptKeys(256, 4), None, keys, values, 0.0, 1.0,
        "cache", "", priced, (), plan,
    )  # fmt: skip


def written(budget: Budget, folder: Path, engine: str) -> str:
    """The lines of Python for an engine in `engines.txt`, after its files were written to a folder."""
    files = engine_files(budget)
    for name, text in files.items():
        (folder / name).write_text(text)
    _, _, after = files["engines.txt"].partition(f"{engine}, in this folder:\n")
    lines = after.splitlines()
    return "\n".join(line.strip() for line in takewhile(lambda line: line.startswith("  "), lines))


TAKEN = [[True, False, True, True, False, True], [True] * 6, [False] * 6]


@pytest.mark.parametrize("taken", TAKEN)
def test_duo_attention_windows_the_heads_of_the_plan(
    taken: list[bool], tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    lines = written(budget_of(["window"], taken), tmp_path, "DuoAttention")

    def load_attn_pattern(folder: str) -> tuple[np.ndarray, int, int]:  # both as duo_attn/utils.py has them
        heads = np.loadtxt(Path(folder, "full_attention_heads.tsv"), dtype=float, delimiter="\t")
        config = json.loads(Path(folder, "config.json").read_text())
        return np.clip(heads, 0, 1), config["sink_size"], config["recent_size"]

    def sparsify_attention_heads(heads: np.ndarray, threshold: float = 0, sparsity: float | None = None) -> Any:
        heads += np.random.default_rng(0).uniform(0, 1e-6, heads.shape)
        if sparsity is not None:
            threshold = float(np.quantile(heads, sparsity))
        if sparsity >= 1:  # type: ignore[operator]
            threshold = 2
        if sparsity <= 0:  # type: ignore[operator]
            threshold = -1
        return (heads >= threshold).astype(float), 1 - np.mean(heads >= threshold)

    stand_in = SimpleNamespace(load_attn_pattern=load_attn_pattern, sparsify_attention_heads=sparsify_attention_heads)
    monkeypatch.setitem(sys.modules, "duo_attn", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "duo_attn.utils", stand_in)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(lines, names)
    assert names["heads"].reshape(-1).tolist() == [0.0 if own else 1.0 for own in taken]
    assert (names["sink_size"], names["recent_size"], names["share"]) == (4, 256, pytest.approx(np.mean(taken)))


@pytest.mark.parametrize("taken", TAKEN)
def test_kvpress_windows_the_heads_of_the_plan(taken: list[bool], tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    lines = written(budget_of(["window"], taken), tmp_path, "kvpress")

    class DuoAttentionPress:  # as kvpress 0.5 chooses heads, by a pattern that it loads itself
        def __init__(self, head_compression_ratio: float) -> None:
            self.ratio = head_compression_ratio

        @staticmethod
        def load_attention_pattern(model: object) -> tuple[int, int, np.ndarray]:
            raise AssertionError("a checkpoint that it doesn't know")

        def windowed(self, model: object) -> tuple[np.ndarray, int, int]:
            sink_size, recent_size, scores = self.load_attention_pattern(model)
            mask = np.zeros(scores.shape, dtype=bool)
            lowest = np.argsort(scores, axis=None)[: round(scores.size * self.ratio)]
            mask[np.unravel_index(lowest, scores.shape)] = True
            return mask, sink_size, recent_size

    monkeypatch.setitem(sys.modules, "kvpress", SimpleNamespace(DuoAttentionPress=DuoAttentionPress))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(lines, names)
    mask, sink_size, recent_size = names["press"].windowed(None)
    assert mask.shape == (LAYERS, HEADS) and mask.reshape(-1).tolist() == taken
    assert (sink_size, recent_size) == (4, 256)


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
