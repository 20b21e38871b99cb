"""What is taken from a cache changes a run as it changes a plain one with dense masks and rounded caches."""

from collections.abc import Sequence
from itertools import product

import gguf
import numpy as np
import pytest
import torch
from gguf.quants import dequantize, quantize
from transformers import LlamaForCausalLM

from attn_cli.errors import InputError
from attn_cli.model.intervention import Intervention
from attn_cli.model.kv_cache import CACHE_FORMATS, CacheChange
from attn_cli.prompt import Prompt, Token
from attn_cli.sources.huggingface.intervene.rounding import rounded_keys, rounded_values
from attn_cli.summaries.budget.scored_text import ScoredText, scored_text
from tests.architectures.knock import speaking
from tests.summaries.budget.oracle import bits_lost, small_llama

TOKENS, SCORED = 120, 40
CLOSE = 2e-5  # bits a token
FIRST = TOKENS - SCORED - 1


@pytest.fixture(scope="module")
def model() -> LlamaForCausalLM:
    return small_llama()


@pytest.fixture(scope="module")
def ids() -> list[int]:
    return np.random.default_rng(0).integers(0, 61, TOKENS).tolist()


@pytest.fixture(scope="module")
def text(model: LlamaForCausalLM, ids: list[int]) -> ScoredText:
    prompt = Prompt("", tuple(Token(at, str(number), number) for at, number in enumerate(ids)))
    return scored_text(speaking(model), prompt, SCORED)


def lost(text: ScoredText, variants: Sequence[Sequence[CacheChange]]) -> np.ndarray:
    """Bits a token lost with each of these changes."""
    return text.losses([Intervention(cache=tuple(changes)) for changes in variants]).mean(1)


VARIANTS = [
    (CacheChange(0, key_heads=(1,), window=10, first=2),),
    (CacheChange(1, window=1),),
    (CacheChange(0, key_heads=(0,), window=30, first=4), CacheChange(0, key_heads=(1,), window=7, first=1)),
    (CacheChange(1, key_heads=(0,), top=3),),
    (CacheChange(0, top=12), CacheChange(1, window=20, first=3)),
    *((CacheChange(layer, keys=name),) for layer, name in product((0, 1), CACHE_FORMATS)),
    *((CacheChange(1, values=name),) for name in CACHE_FORMATS),
    (CacheChange(0, key_heads=(0,), keys="q4_0", values="kivi2"), CacheChange(1, key_heads=(1,), keys="kivi2")),
    (CacheChange(0, window=25, first=4, keys="q5_1", values="q4_1", top=9),),
]


def test_each_change_is_the_plain_run_with_dense_masks(
    model: LlamaForCausalLM, ids: list[int], text: ScoredText
) -> None:
    assert text.experiment.run_mode == "cache"
    losses = lost(text, VARIANTS)
    expected = [bits_lost(model, ids, FIRST, changes) for changes in VARIANTS]
    assert losses == pytest.approx(expected, abs=CLOSE)
    assert min(map(abs, expected)) > 4 * CLOSE  # so that a change that does nothing is seen


@pytest.mark.parametrize("mode", ["prefix", "whole"])
def test_in_whole_passes_the_rows_before_are_left_alone(model: LlamaForCausalLM, ids: list[int], mode: str) -> None:
    prompt = Prompt("", tuple(Token(at, str(number), number) for at, number in enumerate(ids)))
    text = scored_text(speaking(model), prompt, SCORED)
    text.experiment._modes.obstacle, text.experiment._modes.without_cache = "for the test", mode
    some = VARIANTS[::4]
    assert lost(text, some) == pytest.approx([bits_lost(model, ids, FIRST, x) for x in some], abs=CLOSE)


def test_a_model_s_own_cache_is_changed_alike(model: LlamaForCausalLM, ids: list[int]) -> None:
    prompt = Prompt("", tuple(Token(at, str(number), number) for at, number in enumerate(ids)))
    text = scored_text(speaking(model), prompt, SCORED)
    text.experiment._runner.calls.forget_past()
    some = VARIANTS[::4]
    assert lost(text, some) == pytest.approx([bits_lost(model, ids, FIRST, x) for x in some], abs=CLOSE)
    assert text.experiment.run_mode == "cache"


def test_gguf_s_blocks_to_the_bit() -> None:
    numbers = np.random.default_rng(1).standard_normal((3, 500, 64)).astype(np.float32)
    numbers *= np.exp(2 * np.random.default_rng(2).standard_normal((3, 500, 1))).astype(np.float32)
    numbers[0, :5], numbers[0, 5:8] = 0, 1.5
    numbers[1, :100] = np.round(numbers[1, :100] * 2) / 2  # halves, and several that are largest
    for name in ("q8_0", "q4_0", "q4_1", "q5_0", "q5_1"):
        kind = gguf.GGMLQuantizationType[name.upper()]
        expected = dequantize(quantize(numbers.reshape(-1, 64), kind), kind).reshape(numbers.shape)
        for rounded in (rounded_keys, rounded_values):
            ours = rounded(torch.tensor(numbers), name).numpy()
            assert np.array_equal(ours.view(np.int32), expected.view(np.int32)), name


def test_floats_of_8_bits_to_the_bit_and_never_beyond_the_largest() -> None:
    numbers = torch.randn((2, 300, 24), generator=torch.Generator().manual_seed(0)) * 40
    for name, dtype in (("fp8_e4m3", torch.float8_e4m3fn), ("fp8_e5m2", torch.float8_e5m2)):
        assert torch.equal(rounded_keys(numbers, name), numbers.to(dtype).float())
    beyond = torch.tensor([[[500.0, -1e6]]])
    assert rounded_values(beyond, "fp8_e4m3").tolist() == [[[448.0, -448.0]]]
    assert rounded_values(beyond, "fp8_e5m2").tolist() == [[[512.0, -57344.0]]]


def test_blocks_that_no_head_holds_are_refused() -> None:
    with pytest.raises(InputError, match="blocks of 32 numbers, and heads of 24"):
        rounded_values(torch.zeros(1, 3, 24), "q8_0")


def test_windows_wider_than_the_text_change_nothing(text: ScoredText) -> None:
    assert lost(text, [(CacheChange(0, window=TOKENS),), (CacheChange(1, top=TOKENS),)]) == pytest.approx(0, abs=1e-6)
    assert next(iter(text.experiment.outcomes([Intervention(cache=())]))).bits == pytest.approx(0, abs=1e-4)
