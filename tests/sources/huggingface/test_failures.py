"""Whose fault a failed pass is: attn's own stays as it is, the model's and the inputs' are told as such."""

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import nn
from transformers import PreTrainedModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
from transformers.models.llama import modeling_llama

from attn_cli.call import Call
from attn_cli.errors import InputError, LoadError
from attn_cli.prompt import EncodedText, Prompt, Token
from attn_cli.selection import Selection
from attn_cli.sources.huggingface import compat, known_types
from attn_cli.sources.huggingface.capture import registry
from attn_cli.sources.huggingface.capture.calls import ObservedAttention
from attn_cli.sources.huggingface.capture.ledger import Ledger
from attn_cli.sources.huggingface.capture.session import capture, capturing
from attn_cli.sources.huggingface.compat import eager_function
from attn_cli.sources.huggingface.failures import why_failed, why_missing
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.read.input_files import array_prompt
from attn_cli.sources.huggingface.source import ModelSource, source_of
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.matrix import MatrixOf
from tests.architectures.check import built
from tests.architectures.tiny import tiny_model
from tests.releases import IS_OLDER, skip_on_older
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
    for run in (lambda: source.each([prompt], Selection(), show), lambda: source.experiment(prompt)):
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


def test_a_pass_that_fails_in_the_models_code_is_no_bug_of_attns() -> None:
    model: Any = tiny("llama")

    def own(*_: Any) -> None:
        raise RuntimeError("ours")

    assert why_failed(model, error_in_block(model, own), "m", [], unfit=False) is None
    theirs = why_failed(model, error_in_block(model, lambda _, args: (args[0][..., :3],)), "m", [], unfit=False)
    assert isinstance(theirs, LoadError) and "m (llama) can't be run" in theirs.message


class Attention(nn.Module):
    """Attention in three guises: open, below torch's functions, and over queries; or none, for want of an input."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.way == "skipped":
            return x
        scores = x @ x.transpose(-1, -2)
        if self.way == "hidden":
            return torch.ops.aten._softmax(scores, -1, False) @ x
        return scores.softmax(-1 if self.way == "open" else -2) @ x


class Stack(PreTrainedModel):
    config_class = transformers.BertConfig

    def __init__(self, *ways: str) -> None:
        super().__init__(transformers.BertConfig())
        self.layers = nn.ModuleList(nn.ModuleDict({"attention": Attention(way)}) for way in ways)

    def forward(self, inputs_embeds: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            inputs_embeds = layer["attention"](inputs_embeds)
        return inputs_embeds


def reason(*ways: str, layers: tuple[int, ...] | None = None) -> str:
    """The message of `attn` on a stack of such attentions, "" if all is well."""
    model, selection = Stack(*ways), Selection(layers=layers)
    with capturing(model, ObservedAttention(Ledger(model, selection), _ignored)) as ledger:
        model(torch.randn(1, 5, 8))
    error = why_missing(model, ledger, selection, "it")
    assert error is None or isinstance(error, LoadError)
    return "" if error is None else error.message


def _ignored(call: Call) -> None:
    for _ in call.bands():
        pass


@pytest.mark.parametrize(
    ("ways", "layers", "message"),
    [
        (("open", "hidden"), None, "it (bert): layer 1 (layers.1.attention) attended where it can't be seen"),
        (("open", "hidden"), (0,), ""),
        (("open", "skipped"), None, ""),  # it had nothing to do
        (("open", "other"), None, ""),
        (("other",), None, "it (bert) has no softmax attention: it mixes tokens in another way"),
    ],
)
def test_an_attention_that_is_missed_is_named(
    ways: tuple[str, ...], layers: tuple[int, ...] | None, message: str
) -> None:
    assert reason(*ways, layers=layers) == message


@pytest.mark.parametrize("layers", [None, (1, 2), (-2,)])
def test_a_layer_that_does_not_ask_the_registry_is_named(layers: tuple[int, ...] | None) -> None:
    torch.manual_seed(0)
    sizes = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4}
    model: Any = transformers.LlamaModel(transformers.LlamaConfig(**sizes, num_hidden_layers=3)).eval()
    inputs, selection = {"input_ids": torch.arange(3, 14)[None]}, Selection(layers=layers)
    for is_wrong in (False, True):
        if is_wrong:
            model.layers[1].self_attn.forward = lambda hidden_states, **_: (hidden_states, None)
        with capture(model, _ignored, selection=selection) as ledger:
            ledger.end_after_selection()
            model(**inputs)
        error = why_missing(model, ledger, selection, "it")
        assert (error is not None) == is_wrong
        if error is not None:
            assert error.message == "it (llama): layer 1 (layers.1.self_attn) attended where it can't be seen"
    with capture(model, _ignored, selection=Selection(layers=(0,))) as ledger:
        model(**inputs)
    assert why_missing(model, ledger, Selection(layers=(0,)), "it") is None


def test_a_text_tower_that_inherits_the_input_of_images_reads_text(minilm: LoadedModel) -> None:
    model: Any = tiny_model("sam3_lite_text_text_model", "tiny")
    model.embeddings.token_embedding = nn.Embedding(minilm.model.config.vocab_size, model.config.hidden_size)
    assert model.main_input_name == "pixel_values"
    source = source_of(model, minilm.tokenizer)
    assert [len(encoded.ids) for encoded in source.encode(["the river"])] == [4]
    assert source.read(["the river"])[0].tokens[1].text.strip() == "the"
    with pytest.raises(InputError, match="reads pixel_values, not text"):
        source_of(tiny_model("vit", "tiny"), minilm.tokenizer).read(["the river"])


_FACTS = [names for fact, names in vars(known_types).items() if fact[0] != "_" and isinstance(names, frozenset | dict)]
TYPES = sorted({name for names in _FACTS for name in names})


@pytest.mark.parametrize("name", TYPES)
def test_every_name_is_a_type_of_transformers(name: str) -> None:
    if name not in CONFIG_MAPPING_NAMES:
        skip_on_older(f"it has no {name} yet")
    assert name in CONFIG_MAPPING_NAMES


def test_every_argument_of_every_eager_function_is_known() -> None:
    """A name that a release adds, or renames, is refused by attn; here it is learned of."""
    names: set[str] = set()
    models = Path(transformers.__file__).parent / "models"
    for file in models.glob("*/modeling_*.py"):
        for arguments in re.findall(r"\ndef eager_attention_forward\(([^)]*)\)", file.read_text("utf-8")):
            names |= set(re.findall(r"(\w+):", arguments))
    plain = {"module", "query", "key", "value", "attention_mask", "scaling", "dropout", "sliding_window", "kwargs"}
    known = {"softcap", "position_bias"}
    if not IS_OLDER:  # older ones called it s_aux
        known |= {"sinks"}
    assert known <= names - plain <= registry._USED


@pytest.mark.parametrize(("name", "weights"), [("softmax", True), ("scaled_dot_product_attention", False)])
def test_multi_head_attention_calls_functions_by_their_names_in_torch(
    monkeypatch: pytest.MonkeyPatch, name: str, weights: bool
) -> None:
    attention, x, calls = torch.nn.MultiheadAttention(8, 2), torch.randn(5, 1, 8), []
    own = getattr(torch.nn.functional, name)
    monkeypatch.setattr(torch.nn.functional, name, lambda *args, **kwargs: calls.append(name) or own(*args, **kwargs))
    attention(x, x, x, need_weights=weights)
    assert calls == [name]


def eager_with(name: str) -> Any:
    """An eager attention function of a later release that names one more argument."""
    scope: dict[str, Any] = {"__name__": modeling_llama.__name__}
    exec(
        f"def eager(module, query, key, value, attention_mask, scaling, dropout=0.0, {name}=None, **kwargs): ...", scope
    )
    return scope["eager"]


def test_an_option_that_could_change_weights_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = tiny("llama")
    attention = type(model.layers[0].self_attn)
    assert eager_function(attention) is modeling_llama.eager_attention_forward

    def run() -> None:
        registry._unknown.cache_clear()
        with capture(model, lambda call: None):
            model(**sentence(model), heat=torch.ones(1))

    run()  # eager ignores it too
    monkeypatch.setattr(modeling_llama, "eager_attention_forward", eager_with("heat"))
    with pytest.raises(LoadError, match="LlamaAttention gives its attention heat, which attn doesn't know"):
        run()
    monkeypatch.setattr(registry, "eager_function", lambda _: None)
    with pytest.raises(LoadError, match="heat"):
        run()
    registry._unknown.cache_clear()


def test_a_decoder_takes_and_gives_its_cache_under_one_name() -> None:
    model, _ = built("llama")
    name = compat.cache_name(inspect.signature(model.forward).parameters)
    assert name is not None and name in model(input_ids=torch.arange(4)[None], use_cache=True)
    assert compat.cache_name({"cache", "input_ids"}) == "cache"  # as in transformers 5.24
    assert compat.cache_name({"past_key_values"}) == "past_key_values" and compat.cache_name({"input_ids"}) is None
