"""--generate: the tokens are those of the model's own generate, and the weights those of a plain pass over them."""

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from transformers import GenerationConfig, PreTrainedModel, T5EncoderModel

from attn_cli.call import Call
from attn_cli.errors import AttnError, InputError, LoadError
from attn_cli.prompt import Prompt, Token
from attn_cli.selection import Selection
from attn_cli.sources import open_source
from attn_cli.sources.huggingface.generate import TextGenerator
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.read.input_files import ArrayPrompt
from attn_cli.sources.huggingface.read.tokenize import detokenize
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.reduce import Summary, reduce
from attn_cli.summaries.reducers.matrix import Matrix, MatrixOf
from tests.architectures.check import built
from tests.architectures.knock import speaking
from tests.architectures.tiny import tiny_model
from tests.attention_name import all_named
from tests.media import KINDS, audio_file, image_file, tokenizer
from tests.real_models import SMOL

TEXT = "the cat sat on a photo"
Folder = Callable[[str], Path]


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """The folder of a tiny model of that kind, with its head and a tokenizer of whole words."""
    place = tmp_path_factory.mktemp("generating")

    def folder(kind: str) -> Path:
        if not (place / kind).exists():
            model = tiny_model(kind, "tiny")
            model.generation_config.forced_eos_token_id = None
            model.save_pretrained(place / kind)
            tokenizer().save_pretrained(place / kind)
        return place / kind

    return folder


def opened(folder: Path, **options: Any) -> ModelSource:
    source = open_source(str(folder), **options)
    assert isinstance(source, ModelSource)
    return source


def head_of(source: ModelSource) -> PreTrainedModel:
    assert source.loaded.generating is not None
    return source.loaded.generating


def forward(source: ModelSource, prompt: Prompt) -> Any:
    """The plain pass of the model with its head over all tokens, read and generated, on its own eager attention."""
    model = head_of(source)
    with torch.no_grad(), all_named(model, "eager"):
        return model(**source.reader.arguments([prompt]), output_attentions=True, use_cache=False)


def generated_ids(prompt: Prompt) -> tuple[list[int | None], int]:
    """All tokens of the stream in which the model generated, and the index of the first generated one."""
    tokens = prompt.others.get("decoder", prompt.tokens)
    first = next(token.index for token in tokens if token.generated)
    assert [token.index for token in tokens] == list(range(len(tokens)))
    assert all(token.generated for token in tokens[first:])
    return [token.id for token in tokens], first


def seen(source: ModelSource, prompt: Prompt) -> list[Summary]:
    found: list[Summary] = []

    def visit(call: Call) -> None:
        found.append(reduce(call, MatrixOf()))

    source.each([prompt], Selection(), visit)
    return found


def weights(found: list[Summary], stream: str) -> np.ndarray:
    return np.stack([m.weights for s in found if s.place.stream == stream and (m := s.part(Matrix)) is not None])


def agrees(source: ModelSource, prompt: Prompt) -> None:
    """Every generated token is the likeliest, and the weights shown are eager's over the same tokens."""
    ids, first = generated_ids(prompt)
    output = forward(source, prompt)
    likeliest = output.logits[0].argmax(-1).tolist()
    assert likeliest[first - 1 : -1] == ids[first:]
    if prompt.generated is not None and prompt.generated.ended:
        ends = head_of(source).generation_config.eos_token_id
        assert likeliest[-1] in (ends if isinstance(ends, list) else [ends])
    found = seen(source, prompt)
    if source.reader.has_decoder:
        expected = {"decoder": output.decoder_attentions, "cross": output.cross_attentions}
    else:
        expected = {found[-1].place.stream: output.attentions}
    for stream, returned in expected.items():
        stacked = torch.stack(returned)[:, 0].numpy()
        np.testing.assert_allclose(weights(found, stream), stacked, atol=2e-5)  # float32 on scores up to about 100
        assert all(s.queries[-1].generated for s in found if s.place.stream == stream)


@pytest.mark.parametrize("kind", ["gpt2", "mistral", "gpt_oss", "bloom", "deepseek_v3", "qwen3_next", "t5", "bart"])
def test_every_token_is_the_likeliest_and_attends_as_in_a_plain_pass(kind: str, folder_of: Folder) -> None:
    source = opened(folder_of(kind), generate=6)
    (prompt,) = source.read([TEXT])
    assert prompt.generated is not None
    assert prompt.generated.tokens == 6 or prompt.generated.ended
    agrees(source, prompt)


@pytest.mark.parametrize("kind", ["llama", "gpt2", "bart"])
def test_inputs_of_a_file_go_on_as_the_models_own_generate_does(kind: str, folder_of: Folder, tmp_path: Path) -> None:
    arrays = {"input_ids": torch.tensor([[9, 21, 33, 2]]), "attention_mask": torch.ones(1, 4, dtype=torch.int64)}
    decoder = {"decoder_input_ids": torch.tensor([[1, 7]]), "decoder_attention_mask": torch.ones(1, 2)}
    arrays |= decoder if kind == "bart" else {}
    save_file(arrays, file := tmp_path / "x.safetensors")
    source = opened(folder_of(kind), generate=4, inputs=str(file))
    (prompt,) = source.read([])
    own = head_of(source).generate(**arrays, max_new_tokens=4, do_sample=False)[0].tolist()
    assert generated_ids(prompt)[0] == own
    agrees(source, prompt)
    save_file(arrays | {"attention_mask": torch.tensor([[0, 1, 1, 1]])}, file)
    with pytest.raises(InputError, match="--generate needs tokens, not padding"):
        opened(folder_of(kind), generate=4, inputs=str(file)).read([])


@pytest.mark.parametrize("kind", ["llava", "whisper"])
def test_so_it_is_with_an_image_or_audio(kind: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {"image": str(image_file(tmp_path / "cat.png", bright=(1, 2)))}
    if kind == "whisper":
        given = {"audio": str(audio_file(tmp_path / "tone.wav"))}
    source = opened(KINDS[kind](tmp_path / kind), generate=5, **given)
    text = "what is here ?" if kind in ("llava", "qwen2_vl") else ""
    (prompt,) = source.read([text])
    agrees(source, prompt)
    assert all(prompt.text[x.start : x.end] == x.text for x in prompt.tokens if x.start is not None)


def test_an_end_is_no_token(folder_of: Folder, tmp_path: Path) -> None:
    folder = shutil.copytree(folder_of("mistral"), tmp_path / "mistral")
    source = opened(folder, generate=6)
    (prompt,) = source.read([TEXT])
    ids, first = generated_ids(prompt)
    end = ids[first + 2]
    GenerationConfig(eos_token_id=[9999, end]).save_pretrained(folder)
    (shorter,) = opened(folder, generate=6).read([TEXT])
    kept = ids[: ids.index(end, first)]
    assert [token.id for token in shorter.tokens] == kept
    assert shorter.generated is not None
    assert (shorter.generated.tokens, shorter.generated.ended) == (len(kept) - first, True)


def test_an_end_token_of_the_tokenizer_is_not_continued_after(folder_of: Folder) -> None:
    (bare,), (prompt,) = (opened(folder_of("llama"), **more).read([TEXT]) for more in ({}, {"generate": 2}))
    assert bare.tokens[-1].text == "</s>"
    assert prompt.tokens[: len(bare.tokens) - 1] == bare.tokens[:-1]
    assert prompt.tokens[len(bare.tokens) - 1].generated
    assert prompt.warnings[-1] == "</s>, which the tokenizer puts at the end, is left out: the text goes on"


def with_settings(folder: Path, target: Path, settings: dict[str, Any]) -> Path:
    shutil.copytree(folder, target)
    own = json.loads((target / "generation_config.json").read_text())
    (target / "generation_config.json").write_text(json.dumps(own | settings))
    return target


def test_settings_of_speed_and_code_of_a_checkpoint_change_nothing(folder_of: Folder, tmp_path: Path) -> None:
    settings = {"custom_generate": "somebody/code", "max_length": 3, "use_cache": False, "num_return_sequences": 1}
    folder = with_settings(folder_of("opt"), tmp_path / "opt", settings | {"cache_implementation": "static"})
    (folder / "custom_generate").mkdir()
    (folder / "custom_generate" / "generate.py").write_text("raise SystemExit('code of the checkpoint was run')")
    (plain,), (prompt,) = (opened(each, generate=6).read([TEXT]) for each in (folder_of("opt"), folder))
    assert (generated_ids(prompt)[0], prompt.warnings) == (generated_ids(plain)[0], plain.warnings)


SETTINGS: tuple[dict[str, Any], ...] = (
    {}, {"repetition_penalty": 1.8, "no_repeat_ngram_size": 2}, {"forced_eos_token_id": 5, "min_length": 3},
)  # fmt: skip
FORCED = {"forced_bos_token_id": 9, "suppress_tokens": [7, 8]}


@pytest.mark.parametrize(
    ("kind", "settings"), [*itertools.product(["llama", "bart"], SETTINGS), ("mbart", FORCED)], ids=str
)
def test_it_is_what_the_models_own_generate_gives(
    kind: str, settings: dict[str, Any], folder_of: Folder, tmp_path: Path
) -> None:
    folder = with_settings(folder_of(kind), tmp_path / kind, settings)
    source = opened(folder, generate=7)
    (prompt,) = source.read([TEXT])
    ids, first = generated_ids(prompt)
    read = torch.tensor([[token.id for token in prompt.tokens if not token.generated]])
    own = type(head_of(source)).from_pretrained(folder)
    expected = own.generate(read, max_new_tokens=7, attention_mask=torch.ones_like(read))[0].tolist()
    assert prompt.generated is not None
    assert [*ids, *([own.generation_config.eos_token_id] * prompt.generated.ended)] == expected
    assert first == (1 if source.reader.has_decoder else read.shape[1])
    assert not any("asks for" in note for note in prompt.warnings)


@pytest.mark.parametrize(
    ("settings", "note"),
    [({"do_sample": True, "temperature": 0.7, "top_p": 0.9},
      "greedy: the folder asks for do_sample True, temperature 0.7, top_p 0.9"),
     ({"num_beams": 4, "num_beam_groups": 2, "penalty_alpha": 0.6, "top_k": 4},
      "greedy: the folder asks for penalty_alpha 0.6, num_beams 4, num_beam_groups 2"),
     ({"dola_layers": "high", "max_time": 5.0, "token_healing": True},
      "greedy: the folder asks for dola_layers high, max_time 5.0, token_healing True")],
)  # fmt: skip
def test_what_is_not_done_as_the_folder_asks_is_said(
    settings: dict[str, Any], note: str, folder_of: Folder, tmp_path: Path
) -> None:
    source = opened(with_settings(folder_of("opt"), tmp_path / "opt", settings), generate=6)
    (prompt,) = source.read([TEXT])
    assert note in prompt.warnings
    read = torch.tensor([[token.id for token in prompt.tokens if not token.generated]])
    plain = opened(folder_of("opt"), generate=6)
    expected = head_of(plain).generate(read, attention_mask=torch.ones_like(read), max_new_tokens=6)[0].tolist()
    assert generated_ids(prompt)[0] == expected


def test_a_models_settings_and_attention_are_put_back(folder_of: Folder) -> None:
    source = opened(folder_of("llama"), generate=2)
    model = head_of(source)
    before = model.generation_config
    names: list[str | None] = []
    model.register_forward_pre_hook(lambda *_: names.append(model.config._attn_implementation))
    source.read([TEXT])
    assert set(names) == {"sdpa"}  # not eager, which holds all weights
    assert model.config._attn_implementation == "eager"
    assert model.generation_config is before


@pytest.mark.parametrize("kind", ["bert", "vit", "t5-encoder", "bert-generation"])
def test_what_generates_nothing_says_so(kind: str, tmp_path: Path) -> None:
    if kind == "t5-encoder":
        model: PreTrainedModel = T5EncoderModel(tiny_model("t5", "tiny").config)
    else:
        model = tiny_model(kind, "tiny")
    model.save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    with pytest.raises(AttnError, match="can't generate text"):
        opened(tmp_path, generate=2)


def test_bytes_of_a_character_share_its_place(smollm: LoadedModel) -> None:
    before = smollm.tokenizer("So")["input_ids"]  # type: ignore[misc]
    ids = smollm.tokenizer("So 🎉 東京 naïve\n\n x")["input_ids"][len(before) :]  # type: ignore[misc]
    text, tokens = detokenize(smollm.tokenizer, before, ids, "So")
    assert text == "So 🎉 東京 naïve\n\n x"
    assert all(text[token.start : token.end] == token.text for token in tokens)
    assert [token.id for token in tokens] == ids
    assert {token.text for token in tokens if token.text.strip()} >= {"🎉", "東", "京", "x"}
    cut, parts = detokenize(smollm.tokenizer, before, ids[:1], "So")
    assert (len(parts), "\ufffd" in cut) == (1, True)


OWN = """
from transformers import LlamaConfig, LlamaForCausalLM, LlamaModel

class OwnConfig(LlamaConfig):
    model_type = "own"

class OwnModel(LlamaModel):
    config_class = OwnConfig

class OwnForCausalLM(LlamaForCausalLM):
    config_class = OwnConfig

    def __init__(self, config):
        super().__init__(config)
        self.model = OwnModel(config)
"""


def test_code_that_comes_with_a_model_generates_if_it_is_trusted(folder_of: Folder, tmp_path: Path) -> None:
    folder = shutil.copytree(folder_of("llama"), tmp_path / "own")
    (folder / "own.py").write_text(OWN)
    config = json.loads((folder / "config.json").read_text()) | {"model_type": "own"}
    config["architectures"] = ["OwnForCausalLM"]
    config["auto_map"] = {
        "AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel", "AutoModelForCausalLM": "own.OwnForCausalLM"
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    bare, source = (opened(folder, trust_remote_code=True, **more) for more in ({}, {"generate": 4}))
    assert type(source.loaded.model).__name__ == type(bare.loaded.model).__name__ == "OwnModel"
    (prompt,) = source.read([TEXT])
    agrees(source, prompt)
    assert generated_ids(prompt) == generated_ids(opened(folder_of("llama"), generate=4).read([TEXT])[0])
    with pytest.raises(LoadError, match="code of its own"):
        opened(folder, generate=4)
    del config["auto_map"]["AutoModel"]
    (folder / "config.json").write_text(json.dumps(config))
    whole = opened(folder, trust_remote_code=True)
    assert type(whole.loaded.model).__name__ == "OwnForCausalLM"
    np.testing.assert_array_equal(*(weights(seen(x, x.read([TEXT])[0]), "self") for x in (bare, whole)))


def rows_of_generate(model: PreTrainedModel, inputs: dict[str, Any], most: int) -> tuple[list[int], list[np.ndarray]]:
    """The ids of a text and of what the model's own `generate` writes after it; by layer the weights of its steps."""
    with torch.no_grad(), all_named(model, "eager"):
        how = {"do_sample": False, "output_attentions": True, "return_dict_in_generate": True}
        output = model.generate(**inputs, max_new_tokens=most, **how)
    n = len(output.sequences[0])
    rows = [np.zeros((x.shape[1], n - 1, n - 1)) for x in output.attentions[0]]
    for end, step in enumerate(output.attentions, n - most):
        for of_layer, x in zip(rows, step, strict=True):
            of_layer[:, end - x.shape[2] : end, end - x.shape[3] : end] = x[0]
    return output.sequences[0].tolist(), rows


@pytest.mark.parametrize("kind", ["paligemma", "idefics", "kosmos-2", "mllama", "qwen2_vl", "gpt2"])
def test_arrays_with_a_value_for_every_token_grow_as_in_the_models_own_generate(kind: str) -> None:
    model, inputs = built(kind)
    model.generation_config.eos_token_id = None
    model.generation_config.suppress_tokens = list(range(100, 128))  # images can't be written
    ids = inputs["input_ids"]
    if kind == "gpt2":
        inputs |= {"position_ids": torch.arange(7, 7 + ids.shape[1])[None]}
    source = speaking(model)
    tokens = tuple(Token(at, str(number), number) for at, number in enumerate(ids[0].tolist()))
    prompt = TextGenerator(source.loaded, 5)(ArrayPrompt("", tokens, arrays=inputs))
    assert isinstance(prompt, ArrayPrompt)
    written, rows = rows_of_generate(model, inputs, 5)
    assert [token.id for token in prompt.tokens] == written
    found = seen(source, prompt)
    shown = weights(found, found[-1].place.stream)[:, :, :-1, :-1]  # less the last token, which generate doesn't read
    np.testing.assert_allclose(shown, np.stack(rows), atol=1e-5)


@pytest.mark.usefixtures("loads_once")
def test_an_answer_ends_with_a_word_and_says_that_it_goes_on() -> None:
    """What is written to a limit is the beginning of the model's own text, to the end of the word there."""
    text = "Ouagadougou, Yamoussoukro, Antananarivo,"
    source = opened(SMOL, predicts=True)
    tokenizer = source.loaded.tokenizer
    assert tokenizer is not None
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    own = head_of(source).generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=16, do_sample=False)
    whole = tokenizer.decode(own[0])
    (prompt,) = source.read([text])
    grown = 0
    for most in (1, 3, 8):
        generated = source.written(prompt, most).generated
        assert generated is not None and generated.tokens < most + 8
        longer = text + generated.text
        assert generated.tokens >= most or longer.endswith((".", "\n"))
        assert whole.startswith(longer)
        assert not (longer[-1].isalnum() and whole[len(longer)].isalnum())
        assert generated.quote.endswith(" …") != longer.endswith((".", "\n"))
        grown += generated.tokens > most
    assert grown
