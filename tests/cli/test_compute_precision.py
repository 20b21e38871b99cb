"""Numbers in options and arrays of `attn compute` that the matrices' precision can't hold."""

from pathlib import Path

import numpy as np
import pytest

from tests.program import attn, refused


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize(
    ("option", "number"),
    [("--softcap", "1e300"), ("--softcap", "1e-50"), ("--scale", "1e300"), ("--scale", "-1e39"), ("--scale", "1e-300"),
     ("--sink", "1e300"), ("--positions", "alibi:1e300"), ("--positions", "alibi:-1e39")],
)  # fmt: skip
def test_a_number_that_the_precision_cannot_hold_is_refused(option: str, number: str, dtype: type) -> None:
    q = np.array([[1, 2], [3, -1]])
    np.save("q.npy", q.astype(dtype))
    words = f"{float(number.removeprefix('alibi:')):g} can't be held by float32, in which these matrices are computed"
    refused(attn("compute", "--q", "q.npy", f"{option}={number}"), 2, words)
    np.save("q.npy", q.astype(np.float64))
    run = attn("compute", "--q", "q.npy", f"{option}={number}")
    assert "can't be held" not in run.errors
    assert "nan" not in run.text


@pytest.mark.parametrize("name", ["sink", "weights"])
def test_an_array_that_the_precision_cannot_hold_is_refused(name: str) -> None:
    np.save("q.npy", np.array([[1, 2], [3, -1]], dtype=np.float32))
    np.save("x.npy", np.array([[1e300]]) if name == "sink" else np.array([[1.0, 2.0], [-1e300, 0.0]]))
    refused(attn("compute", "--q", "q.npy", f"--{name}", "x.npy"), 2, f"{name} ", "1e+300 can't be held by float32")


def test_slopes_whose_farthest_bias_overflows_are_refused() -> None:
    np.save("q.npy", np.ones((20, 2), dtype=np.float32))
    refused(
        attn("compute", "--q", "q.npy", "--positions", "alibi:1e38"),
        2,
        "alibi:1e38: slope x distance is larger than float32",
    )
