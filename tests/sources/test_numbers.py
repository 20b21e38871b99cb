"""Scores beyond their dtype are refused by row, exactly where the definition makes numbers that are none."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.errors import InputError
from attn_cli.kernel.definition.dense import scores
from attn_cli.kernel.definition.rule import Rule
from attn_cli.sources import memory
from attn_cli.sources.batches import batches_by_length
from attn_cli.sources.numbers import require_finite_scores
from tests.program import SHORT, attn, refused


@given(
    st.integers(0, 2**32 - 1), st.integers(-180, 180), st.integers(-180, 180), st.sampled_from(["f4", "f8"]),
    st.sampled_from([1.0, 0.125, 1e-30, 1e200]),
)  # fmt: skip
def test_rows_are_those_where_the_definition_overflows(seed: int, a: int, b: int, dtype: str, scale: float) -> None:
    rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        q = (rng.normal(size=(4, 5, 3)) * 10.0 ** rng.integers(0, 9, (1, 5, 1)) * 10.0**a).astype(dtype)
        k = (rng.normal(size=(2, 6, 3)) * 10.0**b).astype(dtype)
        if not (np.isfinite(q).all() and np.isfinite(k).all()):
            return
        # the scale comes first, as when bands are computed
        expected = ~np.isfinite(scores(q * q.dtype.type(scale), k, Rule(1.0))).all(axis=(0, 2))
    try:
        require_finite_scores(q, k, scale, "hint")
        named = ""
    except InputError as error:
        named = error.message
    rows = np.flatnonzero(expected)
    assert bool(named) == bool(len(rows))
    if len(rows) == 1:
        assert f"queries {rows[0]} are" in named


def test_commands_name_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    q = np.ones((4, 3))
    q[[1, 3]] = 1e308
    np.save("q.npy", q)
    for more in ([], ["--steps"], ["--decode"], ["--mask", "causal", "--json"]):
        refused(attn("compute", "--q", "q.npy", *more), 2, "scores of queries 1,3 are larger than float64's largest")
    np.save("k.npy", np.ones((4, 3)))
    refused(attn("compute", "--q", "q.npy", "--k", "k.npy", "--scale", "2"), 2, "scores of queries 1,3 are larger")
    Path("t.txt").write_text("river 1e30 1e30 1e30\nbank 1e30 1e30 1e30\n")
    refused(attn("top", "river bank", "-m", "t.txt"), 2, "scores of queries 0-1 are larger than float32's largest")


def test_files_that_a_group_has_read_are_given_up_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without = memory.free_memory()
    assert without is None or without > 0
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("900\n")
    (tmp_path / "memory.stat").write_text("anon 200\ninactive_file 500\nactive_file 100\n")
    monkeypatch.setattr(memory, "_CONTROL_GROUP", tmp_path)
    assert memory.free_memory() == 1000 - (900 - 500 - 100)
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.free_memory() != 700


_PEAK = """
from attn_cli.sources.memory import peak_memory
print(peak_memory())
held = bytearray(80_000_000)
print(peak_memory())
"""


def test_the_peak_of_a_process_is_its_own_and_not_that_of_the_one_that_started_it() -> None:
    held = np.ones(25_000_000)  # 200 MB
    done = subprocess.run([sys.executable, "-c", _PEAK], capture_output=True, text=True, timeout=SHORT, check=True)
    before, after = map(int, done.stdout.split())
    assert before < held.nbytes / 2
    assert 79_000_000 < after - before < 90_000_000


@given(st.lists(st.integers(1, 3000)), st.integers(1, 40), st.sampled_from([(2048, 8, np.inf), (4096, 1, 1.25)]))
def test_every_text_once_and_no_batch_too_large(lengths: list[int], most: int, limits: tuple[int, int, float]) -> None:
    tokens, together, alike = limits
    batches = batches_by_length(lengths, most, tokens=tokens, together=together, alike=alike)
    flat = [place for batch in batches for place in batch]
    assert sorted(flat) == list(range(len(lengths)))
    assert [lengths[place] for place in flat] == sorted(lengths)
    for batch in batches:
        shortest, longest = lengths[batch[0]], lengths[batch[-1]]
        assert len(batch) <= most and (len(batch) <= together or len(batch) * longest <= tokens)
        assert longest <= alike * shortest + 4
