"""Options that can't be meant together: every refusal has a case."""

import inspect
from typing import Any

import numpy as np
import pytest

from attn_cli.errors import InputError
from attn_cli.kernel.definition.mask import dense
from attn_cli.sources.matrices.options import MatrixOptions
from attn_cli.sources.matrices.rules import MASKS, masks_of
from attn_cli.sources.matrices.shapes import ScoreShape
from tests.program import attn

REFUSED: list[dict[str, Any]] = [
    {"q": "-", "masks": ("-",)},
    {"text": "a", "q": "q.npy"},
    {"x": "x.npy", "v": "v.npy"},
    {"q": "q.npy", "scores": "1 2"},
    {"x": "x.npy", "text": "a"},
    {"q": "q.npy", "projections": {"wk": "wk.npy"}},
    {"q": "q.npy", "context": "c.npy"},
    {"q": "q.npy", "projections": {"wdkv": "w.npy"}},
    {"q": "q.npy", "positions": "sinusoidal"},
    {},
    {"x": "x.npy", "latent": 2},
    {"x": "x.npy", "rope_base": float("inf")},
    {"x": "x.npy", "absorb": True},
    {"x": "x.npy", "projections": {"wdkv": "w.npy"}, "kv_heads": 2},
    {"q": "q.npy", "weights": "uniform", "softcap": 50.0},
    {"q": "q.npy", "sink": "0.5", "weights": "scores"},
    {"q": "q.npy", "positions": "learned"},
]


def test_every_refusal_has_a_case_of_its_own() -> None:
    lines = set()
    for options in REFUSED:
        with pytest.raises(InputError) as error:
            MatrixOptions(**options).check()
        lines.add(error.value.message)
    raised = inspect.getsource(MatrixOptions.check).count("raise InputError")
    assert len(lines) == len(REFUSED) == raised + sum(line.endswith("needs embeddings") for line in lines) - 1


@pytest.mark.parametrize(
    "options",
    [
        {"q": "-"}, {"x": "-", "projections": {"wq": "wq.npy"}}, {"text": "a", "context_text": "b"},
        {"x": "x.npy", "context": "c.npy"},
        {"x": "x.npy", "seed": 0, "latent": 2, "absorb": True}, {"q": "q.npy", "positions": "rotary"},
        {"q": "q.npy", "weights": "uniform", "masks": ("causal",)}, {"q": "q.npy", "weights": "scores", "scale": "off"},
    ],
)  # fmt: skip
def test_what_fits_together_is_taken(options: dict[str, Any]) -> None:
    MatrixOptions(**options).check()


# Rows are queries, columns keys, 1 = may attend.
ALLOWED = [
    ("none", ["1111", "1111", "1111"]),
    ("causal", ["1000", "1100", "1110"]),
    ("causal-bottom-right", ["1100", "1110", "1111"]),
    ("causal:1", ["1100", "1110", "1111"]),
    ("window:2", ["1100", "1110", "0111"]),
    ("sliding:2", ["1000", "1100", "0110"]),
    ("dilated:2:2", ["1010", "0101", "1010"]),
    ("prefix:2", ["1100", "1100", "1110"]),
    ("lengths:3", ["1110", "1110", "1110"]),
]


def cells(n: int, m: int, *texts: str) -> list[str]:
    mask, _, _ = masks_of(MatrixOptions(masks=texts), ScoreShape((), 1, n, m, 2, np.dtype(np.float32)))
    allowed = dense(mask((), (0,)), n, m, like=np.empty(0))
    return ["".join(str(int(cell)) for cell in row) for row in np.broadcast_to(allowed, (n, m))]


@pytest.mark.parametrize(("text", "rows"), ALLOWED)
def test_what_a_mask_allows(text: str, rows: list[str]) -> None:
    assert cells(3, 4, text) == rows


def test_every_name_is_held_to_its_cells() -> None:
    assert [entry.name for entry in MASKS] == [text.partition(":")[0] for text, _ in ALLOWED]
    assert cells(3, 4, "causal:-1") == ["0000", "1000", "1100"]
    assert cells(3, 4, "causal:1", "window:2") == ["1100", "0110", "0011"]  # a window stands where the offset says


def test_several_masks_allow_what_each_of_them_allows() -> None:
    assert cells(3, 4, "causal-bottom-right", "window:2") == ["1100", "0110", "0011"]
    assert cells(3, 4, "lengths:2", "causal") == ["1000", "1100", "1100"]


@pytest.mark.parametrize("entry", [entry for entry in MASKS if entry.example], ids=lambda entry: entry.name)
def test_a_mask_without_its_numbers_is_refused_with_an_example(entry) -> None:
    alone = () if any(other.syntax == entry.name for other in MASKS) else (entry.name,)
    for text in (*alone, f"{entry.name}:", f"{entry.name}:many", f"{entry.example}:1"):
        with pytest.raises(InputError, match="needs") as refusal:
            cells(3, 4, text)
        assert entry.example in refusal.value.hint


def test_a_file_goes_before_a_mask_with_numbers_of_the_same_name(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savetxt("window:2.csv", np.eye(3, 4), delimiter=",", fmt="%d")
    assert cells(3, 4, "window:2.csv") == ["1000", "0100", "0010"]


def test_help_and_the_error_for_an_unknown_mask_name_them() -> None:
    shown = " ".join(attn("compute", "--help").text.split())
    assert all(entry.name in shown for entry in MASKS if entry.example)
    with pytest.raises(InputError) as refusal:
        cells(3, 4, "no-mask")
    assert all(entry.syntax in refusal.value.hint for entry in MASKS)
