"""Private names of torch and transformers exist, and mean what attn takes them for."""

import inspect
import re
from math import prod
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from packaging.version import Version
from torch.overrides import TorchFunctionMode
from transformers.models.llama import modeling_llama

from attn_cli.errors import LoadError
from attn_cli.sources.huggingface import compat
from attn_cli.sources.huggingface.capture import registry
from attn_cli.sources.huggingface.capture.session import capture
from attn_cli.sources.huggingface.compat import (
    TESTED_TRANSFORMERS,
    eager_function,
    is_newer_than_tested,
)
from attn_cli.sources.huggingface.source import source_of
from tests.architectures.check import built
from tests.sources.huggingface.models import GROUPED, sentence, tiny

_CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"


def test_the_tested_release_is_that_of_the_tests() -> None:
    assert f"\ntransformers=={TESTED_TRANSFORMERS}\n" in _CONSTRAINTS.read_text("utf-8")


@pytest.mark.parametrize(("version", "newer"), [("5.23.0", False), ("5.22.9", False), ("5.23.1", True), ("6.0", True)])
def test_newer_releases_are_told_from_older_ones(monkeypatch: pytest.MonkeyPatch, version: str, newer: bool) -> None:
    monkeypatch.setattr(compat, "TRANSFORMERS", version)
    assert is_newer_than_tested() == newer


def test_every_argument_of_every_eager_function_is_known() -> None:
    """A name that a release adds, or renames, is refused by attn; here it is learned of."""
    names: set[str] = set()
    models = Path(transformers.__file__).parent / "models"
    for file in models.glob("*/modeling_*.py"):
        for arguments in re.findall(r"\ndef eager_attention_forward\(([^)]*)\)", file.read_text("utf-8")):
            names |= set(re.findall(r"(\w+):", arguments))
    plain = {"module", "query", "key", "value", "attention_mask", "scaling", "dropout", "sliding_window", "kwargs"}
    known = {"softcap", "position_bias"}
    if Version(compat.TRANSFORMERS) >= Version(compat.TESTED_TRANSFORMERS):  # older ones called it s_aux
        known |= {"sinks"}
    assert known <= names - plain <= registry._USED


def test_code_within_is_hidden_from_function_modes() -> None:
    class Counting(TorchFunctionMode):
        calls = 0

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.calls += 1
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, 3)
    with Counting() as mode:
        x.softmax(-1)
        seen = mode.calls
        with compat.hidden_from_function_modes():
            x.softmax(-1)
            torch.nn.functional.scaled_dot_product_attention(x, x, x)
        assert mode.calls == seen > 0


def test_a_wrapper_subclass_has_a_shape_and_no_storage_and_is_asked_at_the_dispatch_level() -> None:
    asked: list[str] = []

    class Empty(torch.Tensor):
        __torch_function__ = compat.WITHOUT_TORCH_FUNCTION

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
            asked.append(func.__name__)
            real = compat.tree_map(lambda x: torch.ones(x.shape) if isinstance(x, Empty) else x, (args, kwargs or {}))
            return func(*real[0], **real[1])

    x = compat.wrapper_subclass(Empty, (10**6, 10**6), torch.float32, "cpu")
    assert (tuple(x.shape), x.dtype, x.device.type, asked) == ((10**6, 10**6), torch.float32, "cpu", [])
    few = compat.wrapper_subclass(Empty, (2, 3), torch.float32, "cpu")
    assert torch.equal(few + 1, torch.full((2, 3), 2.0)) and asked == ["add.Tensor"]


def test_a_dispatch_mode_sees_the_softmaxes_inside_of_torchs_functions() -> None:
    class Seen(compat.TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.softmaxes: list[torch.Tensor] = []

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func in compat.ATEN_SOFTMAX:
                self.softmaxes.append(args[0])
            return func(*args, **(kwargs or {}))

    attention, x = torch.nn.MultiheadAttention(8, 2), torch.randn(5, 1, 8)
    with Seen() as mode, torch.no_grad():
        attention(x, x, x, need_weights=True)
    assert [tuple(scores.shape) for scores in mode.softmaxes] == [(2, 5, 5)]


def test_tree_map_reaches_tensors_in_whatever_a_block_returns() -> None:
    assert compat.tree_map(lambda x: x + 1, ((1, [2]), {"a": 3})) == ((2, [3]), {"a": 4})


def test_masks_are_those_of_eager_attention() -> None:
    i, j, at = torch.arange(3)[:, None], torch.arange(3)[None], torch.zeros(1, 1, dtype=torch.long)
    lower = torch.ones(3, 3, dtype=torch.bool).tril()
    assert torch.equal(compat.causal_mask_function(at, at, i, j), lower)
    assert bool(torch.as_tensor(compat.bidirectional_mask_function(at, at, i, j)).all())
    sizes = {"batch_size": 1, "q_length": 3, "kv_length": 3, "q_offset": 0, "kv_offset": 0, "device": "cpu"}
    padding = torch.tensor([[True, True, False]])
    named = sizes | {"mask_function": compat.causal_mask_function, "attention_mask": padding}
    expected = lower & padding
    assert torch.equal(compat.sdpa_mask(**named)[0, 0], expected)
    eager = compat.eager_mask(**named, dtype=torch.float32)[0, 0]
    assert torch.equal(eager == 0, expected) and float(eager.min()) == torch.finfo(torch.float32).min
    assert torch.equal(compat.prepare_padding_mask(padding, 3, 0), padding)


def test_models_look_their_attention_up_in_the_registrys_entries_under_their_configurations_name() -> None:
    model: Any = tiny("llama")
    entries = compat.entries_of(transformers.AttentionInterface)
    calls = []

    def attend(module: Any, query: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor, None]:
        calls.append(module)
        return torch.zeros_like(query).transpose(1, 2), None

    before = compat.attention_name(model.config)
    entries["ours"] = attend
    try:
        compat.set_attention_name(model.config, "ours")
        assert compat.attention_name(model.config) == "ours"
        model(**sentence(model))
    finally:
        del entries["ours"]
        compat.set_attention_name(model.config, before)
    assert len(calls) == 2 and before == "eager"
    assert "eager" in compat.entries_of(transformers.AttentionMaskInterface)


def test_a_forward_says_that_it_collects_attentions() -> None:
    model, seen = tiny("llama"), list[bool]()
    model.layers[0].register_forward_hook(lambda *_: seen.append(compat.collects_attentions()))
    for is_asked in (False, True):
        model(**sentence(model), output_attentions=is_asked)
    assert seen == [False, True]


def test_an_attention_class_names_the_registry_and_its_own_function() -> None:
    names = inspect.unwrap(modeling_llama.LlamaAttention.forward).__code__.co_names  # transformers 5.24 wraps it
    assert compat.REGISTRY_NAMES & set(names)
    assert any(name.startswith(compat.EAGER_PREFIX) for name in names)
    assert modeling_llama.eager_attention_forward is eager_function(modeling_llama.LlamaAttention)


def test_configurations_lead_to_model_classes() -> None:
    assert compat.models_of(transformers.AutoModel)[transformers.LlamaConfig] is modeling_llama.LlamaModel
    assert transformers.LlamaConfig not in compat.models_of(transformers.AutoModelForMaskedLM)
    config = transformers.LlamaConfig(**GROUPED)
    with torch.device("meta"):
        for cls in (modeling_llama.LlamaModel, transformers.AutoModel):
            assert isinstance(compat.builder_of(cls)(config), modeling_llama.LlamaModel)
    assert hasattr(modeling_llama.LlamaModel, "_from_config")


def test_quantisers_mark_the_models_that_they_load() -> None:
    model: Any = tiny("llama")
    assert getattr(model, "hf_quantizer", None) is None  # as `failures.py` asks
    source = inspect.getsource(transformers.PreTrainedModel.from_pretrained)
    assert "model.hf_quantizer = hf_quantizer" in source


def test_speech_models_say_how_many_frames_are_left() -> None:
    config = transformers.Wav2Vec2Config(num_hidden_layers=1, hidden_size=16, num_attention_heads=2,
                                         intermediate_size=16, conv_dim=(8, 8), conv_stride=(5, 2),
                                         conv_kernel=(10, 3), num_feat_extract_layers=2,
                                         num_conv_pos_embedding_groups=2)  # fmt: skip
    model = transformers.Wav2Vec2Model(config).eval()
    samples = torch.randn(1, 400)
    with torch.no_grad():
        frames = model.feature_extractor(samples).shape[-1]
    assert compat.audio_frames(model, 400) == (frames, prod(config.conv_stride))
    assert compat.audio_frames(torch.nn.Linear(1, 1), 400) is None


def test_processors_have_a_part_for_videos() -> None:
    for parts in compat.processor_parts():
        assert "video_processor" in parts


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


@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt_oss", "t5", "bert"])
def test_a_newer_release_that_attends_otherwise_is_said_once_for_a_model(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    model, inputs = built(name)
    source = source_of(model, None)
    source.reader.arrays = inputs
    assert source.read([])[0].warnings == ()
    monkeypatch.setattr(compat, "TRANSFORMERS", "99.0")
    assert source_and_note(model, inputs) == ()  # as eager computes it
    cls = next(type(module) for module in source.modules)
    eager = eager_function(cls)
    assert eager is not None

    def hotter(module: Any, query: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return eager(module, query * 1.3, *args, **kwargs)

    monkeypatch.setattr(f"{cls.__module__}.eager_attention_forward", hotter)
    (note,) = source_and_note(model, inputs)
    assert note.startswith(f"{cls.__name__} of transformers ") and f"tested with {TESTED_TRANSFORMERS}" in note
    assert model.config._attn_implementation == "eager"


def source_and_note(model: Any, inputs: Any) -> tuple[str, ...]:
    """The warnings of what a new source of the model reads, the same the second time."""
    source = source_of(model, None)
    source.reader.arrays = inputs
    first, second = (source.read([])[0].warnings for _ in range(2))
    assert first == second
    return first


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
