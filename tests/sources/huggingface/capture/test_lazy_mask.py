"""The mask that is a function until somebody computes with it."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedModel
from transformers.masking_utils import (
    and_masks,
    bidirectional_mask_function,
    causal_mask_function,
    chunked_causal_mask_function,
    eager_mask,
    or_masks,
    sliding_window_bidirectional_mask_function,
    sliding_window_causal_mask_function,
)

from attn_cli.kernel.definition.mask import dense
from attn_cli.sources.huggingface.capture import layer_rule
from attn_cli.sources.huggingface.capture import lazy_mask as module
from attn_cli.sources.huggingface.capture.lazy_mask import LazyMask, lazy_mask
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from tests.sources.huggingface.models import sentence, tiny
from tests.sources.huggingface.runs import OTHER, TEXT, encoded, run_captured, run_plain

# How transformers calls a mask function: what is allowed, and what goes with it.
TRANSLATED: dict[str, dict[str, Any]] = {
    "causal": {"mask_function": causal_mask_function, "allow_is_causal_skip": True},
    "everything": {"mask_function": bidirectional_mask_function, "allow_is_causal_skip": False},
    "window": {"mask_function": sliding_window_causal_mask_function(3), "local_size": 3, "allow_is_causal_skip": True},
    "window on both sides": {
        "mask_function": sliding_window_bidirectional_mask_function(2),
        "local_size": 2,
        "allow_is_causal_skip": False,
    },
}
CELL_BY_CELL: dict[str, dict[str, Any]] = {
    "causal, or one of the first two": {
        "mask_function": or_masks(causal_mask_function, lambda b, h, i, j: j < 2),
        "allow_is_causal_skip": False,
    },
    "every third": {
        "mask_function": and_masks(causal_mask_function, lambda b, h, i, j: (i - j) % 3 == 0),
        "allow_is_causal_skip": False,
    },
    "chunks": {
        "mask_function": chunked_causal_mask_function(3, torch.zeros(3, dtype=torch.long)),
        "local_size": 3,
        "allow_is_causal_skip": True,
    },
    "another for each text": {"mask_function": lambda b, h, i, j: j <= i + b, "allow_is_causal_skip": False},
}


@st.composite
def arguments(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of transformers' mask functions: any size, with past keys or without, padded on either side."""
    batch, n, past = draw(st.integers(1, 3)), draw(st.integers(1, 7)), draw(st.integers(0, 5))
    m = n + past
    padding = None
    if draw(st.booleans()):
        padding = torch.ones(batch, m, dtype=torch.bool)
        for text in range(batch):
            blank = draw(st.integers(0, m - 1))
            padding[text, slice(0, blank) if draw(st.booleans()) else slice(m - blank, m)] = False
    return {
        "batch_size": batch,
        "q_length": n,
        "kv_length": m,
        "q_offset": past,
        "attention_mask": padding,
        "use_vmap": False,
        "device": "cpu",
        **draw(st.sampled_from([*TRANSLATED.values(), *CELL_BY_CELL.values()])),
    }


@given(arguments())
def test_its_rule_allows_what_eagers_mask_allows(options: dict[str, Any]) -> None:
    lazy, expected = lazy_mask(**options), eager_mask(**options) == 0
    for text in range(options["batch_size"]):
        rule = lazy.rule_mask(text, slice(0, options["kv_length"]))
        cells = dense(rule, options["q_length"], options["kv_length"], like=torch.empty(0))
        assert torch.equal(cells, expected[text, 0])


@given(arguments())
def test_it_becomes_eagers_mask_as_soon_as_it_is_computed_with(options: dict[str, Any]) -> None:
    lazy, expected = lazy_mask(**options), eager_mask(**options)
    assert (lazy.shape, lazy.dtype) == (expected.shape, expected.dtype)
    assert torch.equal(lazy + 0, expected)
    assert torch.equal(lazy[:, :, -1:], expected[:, :, -1:])
    assert torch.equal(torch.cat([lazy, lazy], dim=-1), torch.cat([expected, expected], dim=-1))


def test_a_function_that_must_be_mapped_is_eagers_mask_from_the_start() -> None:
    options = {"batch_size": 1, "q_length": 3, "kv_length": 3, "use_vmap": True, **CELL_BY_CELL["every third"]}
    mask = lazy_mask(**options)
    assert not isinstance(mask, LazyMask) and torch.equal(mask, eager_mask(**options))


@given(arguments())
def test_its_booleans_say_the_same(options: dict[str, Any]) -> None:
    booleans = lazy_mask(**options).boolean()
    if booleans is None:  # then SDPA is told is_causal, or has one query that sees all keys
        n, m = options["q_length"], options["kv_length"]
        booleans = torch.ones(n, m, dtype=torch.bool).tril(0 if n > 1 else m)[None, None]
    assert torch.equal(booleans.expand(options["batch_size"], -1, -1, -1), eager_mask(**options) == 0)


@pytest.mark.parametrize("name", [*TRANSLATED, *CELL_BY_CELL])
def test_the_usual_masks_are_recognised_and_others_are_called_cell_by_cell(name: str) -> None:
    lazy = lazy_mask(batch_size=1, q_length=4, kv_length=4, **(TRANSLATED | CELL_BY_CELL)[name])
    rule = lazy.rule_mask(0, slice(0, 4))
    assert any(callable(part.cells) for part in rule.parts or (rule,)) == (name in CELL_BY_CELL)


@pytest.fixture
def made_real(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of all masks that became numbers, as floats or as booleans."""
    shapes: list[tuple[int, ...]] = []
    for name in ("eager_mask", "sdpa_mask"):
        real = getattr(module, name)

        def counted(*arguments: Any, real: Any = real, **named: Any) -> Any:
            mask = real(*arguments, **named)
            if mask is not None:
                shapes.append(tuple(mask.shape))
            return mask

        monkeypatch.setattr(module, name, counted)
    return shapes


def test_a_plain_run_makes_no_mask_real(
    real: LoadedModel, made_real: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long batch makes none either; what is long is lowered here."""
    monkeypatch.setattr(layer_rule, "_MASK_CELLS", 9)
    run_captured(real.model, encoded(real, TEXT))
    run_captured(real.model, encoded(real, TEXT, OTHER))
    assert made_real == []


class Sums(torch.nn.Module):
    """Stands for a model that computes with its mask before it hands it on."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, hidden_states: torch.Tensor, *rest: Any, attention_mask: Any = None, **named: Any) -> Any:
        n = hidden_states.shape[1]
        ramp = -0.5 * (torch.arange(n)[:, None] - torch.arange(n)[None]).abs()
        return self.inner(hidden_states, *rest, attention_mask=attention_mask[:, :, :n, :n] + ramp, **named)


def adding(model: PreTrainedModel) -> PreTrainedModel:
    for block in model.layers:
        block.self_attn = Sums(block.self_attn)
    return model


def test_a_model_that_slices_and_adds_to_the_mask_gets_the_right_numbers(made_real: list[tuple[int, ...]]) -> None:
    model = adding(tiny("llama"))
    inputs = sentence(model, texts=2) | {"attention_mask": torch.tensor([[1] * 11, [1] * 7 + [0] * 4])}
    run = run_captured(model, inputs)
    expected = run_plain(model, inputs)[0]
    assert made_real  # it was needed this time
    counted = inputs["attention_mask"].bool()
    torch.testing.assert_close(run.outputs[0][counted], expected[counted], atol=1e-4, rtol=0)  # float32, two layers
    without = run_plain(tiny("llama"), inputs)[0]
    assert (without - expected).abs().max() > 0.1  # the ramp matters


def test_nothing_to_mask_is_no_mask() -> None:
    options = {"batch_size": 1, "q_length": 4, "kv_length": 4, "mask_function": bidirectional_mask_function,
             "attention_mask": torch.ones(1, 4, dtype=torch.bool)}  # fmt: skip
    assert lazy_mask(**options, allow_is_bidirectional_skip=True) is None
    assert isinstance(lazy_mask(**options), LazyMask)
