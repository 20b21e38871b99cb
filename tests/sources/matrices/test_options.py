"""Options that can't be meant together: every refusal has a case, and the first that holds is the one that is said."""

from typing import Any

import pytest

from attn_cli.errors import InputError
from attn_cli.sources.matrices.options import MatrixOptions, conflicts

REFUSED: list[dict[str, Any]] = [
    {"q": "-", "masks": ("-",)},
    {"text": "a", "q": "q.npy"},
    {"x": "x.npy", "v": "v.npy"},
    {"q": "q.npy", "scores": "1 2"},
    {"x": "x.npy", "text": "a"},
    {"q": "q.npy", "wk": "wk.npy"},
    {"q": "q.npy", "context": "c.npy"},
    {"q": "q.npy", "wdkv": "w.npy"},
    {"q": "q.npy", "positions": "sinusoidal"},
    {},
    {"x": "x.npy", "latent": 2},
    {"x": "x.npy", "rope_base": float("inf")},
    {"x": "x.npy", "absorb": True},
    {"x": "x.npy", "wdkv": "w.npy", "kv_heads": 2},
    {"q": "q.npy", "fixed": "uniform", "softcap": 50.0},
    {"q": "q.npy", "sink": "0.5", "softmax": False},
    {"q": "q.npy", "positions": "learned"},
]


@pytest.mark.parametrize(("place", "options"), list(enumerate(REFUSED)))
def test_every_refusal_has_a_case_that_no_earlier_one_holds(place: int, options: dict[str, Any]) -> None:
    made = MatrixOptions(**options)
    told = conflicts(made)
    assert len(told) == len(REFUSED)
    assert next(at for at, (is_wrong, _, _) in enumerate(told) if is_wrong) == place
    with pytest.raises(InputError) as error:
        made.check()
    assert (error.value.message, error.value.hint) == told[place][1:]


@pytest.mark.parametrize(
    "options",
    [
        {"q": "-"}, {"x": "-", "wq": "wq.npy"}, {"text": "a", "context_text": "b"}, {"x": "x.npy", "context": "c.npy"},
        {"x": "x.npy", "seed": 0, "latent": 2, "absorb": True}, {"q": "q.npy", "positions": "rotary"},
        {"q": "q.npy", "fixed": "uniform", "masks": ("causal",)}, {"q": "q.npy", "softmax": False, "scale": "off"},
    ],
)  # fmt: skip
def test_what_fits_together_is_taken(options: dict[str, Any]) -> None:
    MatrixOptions(**options).check()
