"""Private names of torch and transformers exist, and mean what attn takes them for."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers.models.llama import modeling_llama

from attn_cli.errors import LoadError
from attn_cli.sources.huggingface import compat
from attn_cli.sources.huggingface.capture import registry
from attn_cli.sources.huggingface.capture.session import capture
from attn_cli.sources.huggingface.compat import eager_function
from tests.architectures.check import built
from tests.releases import IS_OLDER
from tests.sources.huggingface.models import sentence, tiny


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


def test_a_model_says_how_its_arrays_go_on_when_it_generates() -> None:
    model, _ = built("paligemma")
    given = {"token_type_ids": torch.zeros(1, 3, dtype=torch.long), "attention_mask": torch.ones(1, 3)}
    longer = compat.one_token_longer(model, given)
    assert longer["token_type_ids"].tolist() == [[0, 0, 0, 1]]
    assert longer["attention_mask"].tolist() == [[1, 1, 1, 1]]
