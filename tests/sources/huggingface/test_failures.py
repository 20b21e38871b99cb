"""Whose fault a failed pass is: attn's own stays as it is, the model's and the inputs' are told as such."""

from typing import Any

import numpy as np
import pytest
import torch
from transformers import BitsAndBytesConfig

from attn_cli.call import Call
from attn_cli.errors import InputError, LoadError
from attn_cli.prompt import EncodedText, Prompt, Token
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.failures import why_failed
from attn_cli.sources.huggingface.read.input_files import array_prompt
from attn_cli.sources.huggingface.source import ModelSource, source_of
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.matrix import MatrixOf
from tests.architectures.check import built
from tests.sources.huggingface.models import sentence, tiny

TEXT = torch.arange(3, 15)[None]
TOKENS = tuple(Token(at, f"w{at}", number) for at, number in enumerate(TEXT[0].tolist()))


def source_on(name: str, **arrays: torch.Tensor) -> tuple[ModelSource, Prompt]:
    model, _ = built(name)
    source = source_of(model, None)
    source.reader.arrays = arrays
    return source, array_prompt(model, "", TOKENS, arrays)


def show(call: Call) -> None:
    reduce(call, MatrixOf())


def encoded(n: int) -> EncodedText:
    nowhere = np.full(n, -1)
    return EncodedText(np.arange(3, 3 + n), np.zeros(n, dtype=bool), nowhere, nowhere)


def error_in_block(model: Any, hook: Any) -> Exception:
    handle = model.layers[1].mlp.register_forward_pre_hook(hook)
    try:
        with pytest.raises((RuntimeError, AssertionError)) as caught:
            model(**sentence(model))
    finally:
        handle.remove()
    return caught.value


@pytest.mark.parametrize("name", ["bert", "llama", "gptj"])  # gptj's attention is its own code, under a function mode
@pytest.mark.parametrize("kind", [ValueError, TypeError, RuntimeError, AssertionError])
def test_a_reader_that_fails_is_no_fault_of_model_or_inputs(name: str, kind: type[Exception]) -> None:
    def visit(call: Call) -> None:
        raise kind("shapes (2,3) and (4,) not aligned")

    source, prompt = source_on(name, input_ids=TEXT)
    with pytest.raises(kind, match="not aligned"):
        source.each([prompt], Selection(), visit)
    with pytest.raises(kind, match="not aligned"):
        source.each_encoded([encoded(6), encoded(5)], Selection(), visit)


@pytest.mark.parametrize(("name", "wrong"), [("llama", "input_ids"), ("gptj", "position_ids"), ("bert", "input_ids")])
def test_inputs_that_do_not_fit_are_told_by_every_way_to_run(name: str, wrong: str) -> None:
    source, prompt = source_on(name, **{"input_ids": TEXT, wrong: torch.full((1, 12), 0.5)})
    for run in (
        lambda: source.each([prompt], Selection(), show),
        lambda: source.experiment(prompt),
    ):
        with pytest.raises(InputError, match="can't be run on this"):
            run()


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (torch.zeros(1, 1, 12, 7), r"LlamaAttention got a mask of shape \(1, 1, 12, 7\) for scores \(1, 4, 12, 12\)"),
        (torch.zeros(1, 1, 7, 12), r"a mask of shape \(1, 1, 7, 12\)"),
        (torch.zeros(1, 3, 12, 12), r"a mask of shape \(1, 3, 12, 12\)"),
    ],
)
def test_a_mask_that_fits_no_scores_is_the_inputs(mask: torch.Tensor, words: str) -> None:
    source, prompt = source_on("llama", input_ids=TEXT, attention_mask=mask)
    for selection in (Selection(), Selection(layers=(1,))):
        with pytest.raises(InputError, match=words):
            source.each([prompt], selection, show)


def test_a_mask_of_whole_numbers_is_added_as_eager_adds_it() -> None:
    mask = torch.randint(-3, 4, (1, 1, 12, 12))
    source, prompt = source_on("llama", input_ids=TEXT, attention_mask=mask)
    seen: list[np.ndarray] = []
    source.each([prompt], Selection(), lambda call: seen.append(next(iter(call.bands())).weights.numpy()))
    model = source.loaded.model
    with torch.no_grad():
        expected = model(TEXT, attention_mask=mask, output_attentions=True, use_cache=False).attentions
    for mine, theirs in zip(seen, expected, strict=True):
        np.testing.assert_allclose(mine, theirs[0].numpy(), atol=1e-6)


def test_ids_of_too_many_axes_are_the_inputs() -> None:
    source, prompt = source_on("llama", input_ids=TEXT[None])
    with pytest.raises(InputError, match=r"got a query or key of shape .* not \[b, h, n, d\]"):
        source.each([prompt], Selection(), show)


def test_a_mask_that_the_models_own_code_can_not_read_is_the_inputs() -> None:
    source, prompt = source_on("gpt_neo", input_ids=TEXT, attention_mask=torch.ones(12))
    with pytest.raises(InputError, match="can't be run on this: too many indices"):
        source.each([prompt], Selection(), show)


def test_a_pass_that_fails_in_the_models_code_is_no_bug_of_attns() -> None:
    model: Any = tiny("llama")

    def own(*_: Any) -> None:
        raise RuntimeError("ours")

    assert why_failed(model, error_in_block(model, own), "m", [], unfit=False) is None
    theirs = why_failed(model, error_in_block(model, lambda _, args: (args[0][..., :3],)), "m", [], unfit=False)
    assert isinstance(theirs, LoadError) and "m (llama) can't be run" in theirs.message


def test_a_failing_forward_pass_of_packed_weights_is_told_as_such() -> None:
    model: Any = tiny("llama")

    def unpack(*_: Any) -> None:
        raise AssertionError

    failure = error_in_block(model, unpack)
    assert why_failed(model, failure, "m", [], unfit=False) is None
    model.hf_quantizer = object()
    model.config.quantization_config = BitsAndBytesConfig(load_in_8bit=True)
    error = why_failed(model, failure, "m", [], unfit=False)
    assert isinstance(error, LoadError)
    assert error.message == "m (llama) is quantised (bitsandbytes) and can't be run here: AssertionError"
