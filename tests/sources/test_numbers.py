"""Scores beyond their dtype are refused by row, exactly where the definition makes numbers that are none."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.errors import InputError
from attn_cli.kernel.definition.dense import scores
from attn_cli.kernel.definition.rule import Rule
from attn_cli.sources.numbers import require_finite_scores
from tests.program import attn, refused


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
