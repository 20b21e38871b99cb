"""Tokens are labelled with what the user wrote, at the place where it stands."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerFast
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from attn_cli.call import Call
from attn_cli.errors import InputError, LoadError
from attn_cli.prompt import Prompt, Token
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.capture.session import capture
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.read.input_files import as_arguments, file_prompt
from attn_cli.sources.huggingface.read.positions import position_count, position_limit
from attn_cli.sources.huggingface.read.tokenize import aligned, text_notes, tokenize, with_words
from attn_cli.summaries.calls.in_words import words_of
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.matrix import Matrix, MatrixOf
from tests.architectures.overrides import OVERRIDES
from tests.architectures.tiny import shrunk, tiny_model
from tests.media import TEXT, saved, tokenizer
from tests.program import attn, refused
from tests.sources.huggingface.generate.test_greedy import opened
from tests.sources.huggingface.models import tiny


def prompt(loaded: LoadedModel, text: str, pair: str | None = None) -> Prompt:
    return tokenize(loaded.tokenizer, text, pair)


@pytest.mark.parametrize(
    ("model", "text", "expected"),
    [
        ("smollm", "He sat, unbelievably.", ["He", "sat", ",", "unbelie", "v", "ably", "."]),  # no space is shown
        ("smollm", " two  spaces\n\nand\ta tab ", [
            "two", " ", "spaces", "\n", "\n", "and", "\t", "a", "tab", " "  # tokens of their own
        ]),
        ("minilm", "NAÏVE Bank", ["[CLS]", "NAÏVE", "Bank", "[SEP]"]),  # which the model reads in lower case
    ],
)  # fmt: skip
def test_labels_are_what_was_written(
    model: str, text: str, expected: list[str], request: pytest.FixtureRequest
) -> None:
    assert [token.text for token in prompt(request.getfixturevalue(model), text).tokens] == expected


def test_what_the_model_does_not_know_is_shown_and_warned_about(minilm: LoadedModel) -> None:
    found = prompt(minilm, "🙂 is fine, 👩‍👩‍👧 is not")
    assert found.tokens[1].text == "🙂"
    assert not found.tokens[1].special
    assert found.warnings == ("not in the model's vocabulary, read as [UNK]: 🙂, 👩‍👩‍👧",)
    assert prompt(minilm, "all is known").warnings == ()


@pytest.mark.parametrize("text", ["", " ", "\n\t "])
def test_an_empty_text(real: LoadedModel, text: str) -> None:
    with pytest.raises(InputError, match="empty"):
        prompt(real, text)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda text: text.strip()))
def test_every_label_is_the_text_at_its_place(minilm: LoadedModel, smollm: LoadedModel, text: str) -> None:
    for loaded in (minilm, smollm):
        if not loaded.tokenizer(text)["input_ids"]:  # a vocabulary without that character
            with pytest.raises(InputError, match="no tokens"):
                tokenize(loaded.tokenizer, text)
            continue
        found = tokenize(loaded.tokenizer, text)
        for token in found.tokens:
            if token.start is not None:
                assert token.text == text[token.start : token.end] != ""
        assert [token.index for token in found.tokens] == list(range(len(found.tokens)))
        assert [token.id for token in found.tokens] == loaded.tokenizer(text)["input_ids"]


def test_a_text_that_a_tokenizers_pattern_gives_up_on() -> None:
    words = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Split(Regex("(a+)+b"), "isolated")
    reads = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]")
    with pytest.raises(LoadError, match="the tokenizer can't read"):
        tokenize(reads, "a" * 60)


def test_special_tokens_that_the_text_and_the_tokenizer_write_are_noted(minilm: LoadedModel) -> None:
    def notes(text: str, **how: bool) -> list[str]:
        return list(tokenize(minilm.tokenizer, text, **how).warnings)

    start = "two start tokens: the text begins with [CLS] twice"
    end = "two end tokens: the text ends with [SEP] twice"
    assert notes("a bank") == notes("a [SEP] bank") == []
    assert notes("[CLS] a bank") == [start]
    assert notes("[CLS] a bank [SEP]") == [start, end]
    assert notes("a bank [SEP]", target=True) == []  # its end token is no input of a decoder
    assert notes("[CLS][CLS] a bank [SEP]", add_special_tokens=False) == [start]


def test_a_text_says_where_it_is_cut() -> None:
    words, text = tokenizer(), "the cat sat what is here ?"
    for length, said in ((6, ("read 16 of 26 characters: the text is cut",)), (9, ())):
        ids = words(text, truncation=True, max_length=length, return_tensors="pt")["input_ids"]
        tokens, _ = aligned(words, text, ids[0].tolist(), add_special_tokens=True)
        assert [token.id for token in tokens] == ids[0].tolist()
        assert [text[token.start : token.end] for token in tokens[1:5]] == ["the", "cat", "sat", "what"]
        assert text_notes(text, tokens) == said


def words(tokenizer: PreTrainedTokenizerFast, text: str, pair: str | None = None) -> list[str]:
    return [word.text for word in words_of(tokenize(tokenizer, text, pair).tokens).labels]


def by_character(text: str) -> list[str]:
    tokens = [Token(at, character, at, at, at + 1) for at, character in enumerate(text)]
    found = words_of(with_words(text, tokens, ())).labels
    return [word.text for word in found if not word.text.isspace()]


BORDERED = "Unbelievably, don't we've 3.14 of 1,000 well-known snake_case 'tis naïve (unsafe)! $20 50% end."
PARTS = [
    "Unbelievably", ",", "don't", "we've", "3.14", "of", "1,000", "well", "-", "known", "snake_case", "'", "tis",
    "naïve", "(", "unsafe", ")", "!", "$", "20", "50", "%", "end", ".",
]  # fmt: skip


def test_words_are_the_same_however_a_tokenizer_cuts_them(minilm: LoadedModel, smollm: LoadedModel) -> None:
    assert words(minilm.tokenizer, BORDERED) == ["[CLS]", *PARTS, "[SEP]"]
    assert words(smollm.tokenizer, BORDERED) == [*PARTS[:16], ")!", *PARTS[18:]]  # one piece, which nothing cuts
    assert by_character(BORDERED) == PARTS


@pytest.mark.parametrize(
    "text", ["🙂", "👩‍👩‍👧", "👍🏽", "🇩🇪", "é", "❤️", "1️⃣", "नमस्ते", "한국어", "می‌خواهم", "co\u00adop", "x²"]
)
def test_what_is_one_to_the_eye_is_one_word(smollm: LoadedModel, text: str) -> None:
    assert words(smollm.tokenizer, f"a {text} b") == ["a", text, "b"]
    assert by_character(f"a {text} b") == ["a", text, "b"]


def test_scripts_without_spaces_stay_in_pieces(minilm: LoadedModel, smollm: LoadedModel) -> None:
    assert words(smollm.tokenizer, "東京タワー") == ["東", "京", "タ", "ワ", "ー"]  # each of several bytes
    assert words(minilm.tokenizer, "iphone東京") == ["[CLS]", "iphone", "東", "京", "[SEP]"]
    assert by_character("ภาษาไทย") == list("ภาษาไทย") and by_character("🇩🇪🇫🇷🇮🇹") == ["🇩🇪", "🇫🇷", "🇮🇹"]
    assert by_character("a\u200bb") == ["a", "\u200b", "b"]  # an invisible space


def test_a_space_of_its_own_goes_with_the_word_after_it_and_other_white_space_with_none(smollm: LoadedModel) -> None:
    assert words(smollm.tokenizer, "in 2024") == ["in", "2024"]
    parts = ["two", " ", "spaces", "\n", "\n", "and", "\t", "a", " "]
    assert words(smollm.tokenizer, "two  spaces\n\nand\ta ") == parts
    found = words_of(tokenize(smollm.tokenizer, "in 2024").tokens)
    assert [(word.start, word.end) for word in found.labels] == [(0, 2), (3, 7)]
    assert found.starts.tolist() == [0, 1, 6]


def test_special_and_added_tokens_stay_single_though_they_touch(smollm: LoadedModel) -> None:
    assert words(smollm.tokenizer, "<|im_start|>user\nunbelievably<|im_end|>") == [
        "<|im_start|>", "user", "\n", "unbelievably", "<|im_end|>"
    ]  # fmt: skip
    tokens = [Token(0, "see", 5, 0, 3), Token(1, "IMG", 9, 3, 6), Token(2, "here", 6, 6, 10)]
    assert len(words_of(with_words("seeIMGhere", tokens, {9})).labels) == 3
    assert len(words_of(with_words("seeIMGhere", tokens, ())).labels) == 1


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda text: text.strip()))
def test_every_word_is_the_text_at_its_place_without_white_space_and_no_piece_is_lost(
    minilm: LoadedModel, smollm: LoadedModel, text: str
) -> None:
    for loaded in (minilm, smollm):
        if not loaded.tokenizer(text)["input_ids"]:
            continue
        tokens = tokenize(loaded.tokenizer, text).tokens
        found = words_of(tokens)
        assert found.starts[-1] == len(tokens)
        for word, first, last in zip(found.labels, found.starts, found.starts[1:], strict=False):
            pieces = tokens[first:last]
            if word.start is not None:
                assert word.text == text[word.start : word.end]
            if len(pieces) > 1:
                assert not any(character in " \n\t" for character in word.text)
                assert not any(piece.special for piece in pieces)


ROPE: dict[str, dict[str, Any]] = {
    "longrope": {"rope_type": "longrope", "original_max_position_embeddings": 16,
                 "short_factor": [1.0] * 4, "long_factor": [9.0, 7.0, 5.0, 3.0]},
    "dynamic": {"rope_type": "dynamic", "factor": 4.0},
}  # fmt: skip


def folder_of(kind: str, folder: Path) -> Path:
    """A tiny model with these angles, which change beyond 16 tokens."""
    sizes = TEXT | {"max_position_embeddings": 64 if kind == "longrope" else 16, "rope_parameters": ROPE[kind]}
    ids = {"eos_token_id": None, "pad_token_id": 0}
    name = "Phi3" if kind == "longrope" else "Llama"
    config = getattr(transformers, f"{name}Config")(**sizes, **ids, original_max_position_embeddings=16)
    torch.manual_seed(0)
    return saved(getattr(transformers, f"{name}ForCausalLM")(config), folder, tokenizer(), strength=8)


@pytest.mark.parametrize("kind", ROPE)
@pytest.mark.parametrize("lengths", [(30, 20, 8), (8, 20, 30)])
def test_a_text_has_the_angles_of_its_own_length(kind: str, lengths: tuple[int, ...], tmp_path: Path) -> None:
    folder = folder_of(kind, tmp_path)
    source = opened(folder)
    prompts = source.read(["a cat " * (length // 2) for length in lengths])
    found: dict[int, list[np.ndarray]] = {}

    def visit(call: Call) -> None:
        matrix = reduce(call, MatrixOf()).part(Matrix)
        assert matrix is not None
        found.setdefault(matrix.weights.shape[1], []).append(matrix.weights)

    for first in range(0, len(prompts), source.batch_size):
        source.each(prompts[first : first + source.batch_size], Selection(), visit)
    for prompt in prompts:
        model: PreTrainedModel = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager")
        with torch.no_grad():
            own = model(torch.tensor([[token.id for token in prompt.tokens]]), output_attentions=True).attentions
        np.testing.assert_allclose(found[len(prompt.tokens)], torch.cat(own).numpy(), atol=1e-5)


def test_a_limit_is_that_of_a_table(minilm: LoadedModel, smollm: LoadedModel) -> None:
    assert position_limit(minilm.model) == position_count(minilm.model) == 512
    assert position_limit(smollm.model) is None  # its angles have no end
    assert position_count(smollm.model) == 8192


COUNTED = {"bert": 64, "gptj": 64, "bart": 64, "xlm": 64, "roberta": 62, "mpnet": 62, "longformer": 62}
ENDLESS = ("esm", "t5", "bloom")


@torch.no_grad()
@pytest.mark.parametrize("kind", [*COUNTED, *ENDLESS])
def test_what_the_model_runs_is_run_and_the_rest_is_too_long(kind: str) -> None:
    """Some count positions from behind the padding token, which is 1."""
    config = shrunk(CONFIG_MAPPING[kind], OVERRIDES.get(kind, {}), "tiny")
    if COUNTED.get(kind) == 62:
        config.pad_token_id = 1
    model, count = AutoModel.from_config(config).eval(), COUNTED.get(kind)
    assert position_limit(model) == count
    more = {"decoder_input_ids": torch.full((1, 2), 7)} if config.is_encoder_decoder else {}
    model(input_ids=torch.full((1, count or 150), 7), **more)
    if count:
        with pytest.raises((IndexError, RuntimeError)):
            model(input_ids=torch.full((1, count + 1), 7), **more)


@pytest.mark.parametrize(
    ("settings", "trained"),
    [({}, 20), ({"rope_type": "linear", "factor": 4.0}, 80),
     ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 10}, 40),
     ({"rope_type": "llama3", "factor": 1.5, "original_max_position_embeddings": 10, "low_freq_factor": 1.0,
       "high_freq_factor": 4.0}, 20)],
)  # fmt: skip
def test_a_text_beyond_what_a_model_was_trained_for_is_read_with_a_note(
    settings: dict[str, Any], trained: int, tmp_path: Path
) -> None:
    rope = {"rope_parameters": {"rope_theta": 1e4, **settings}} if settings else {}
    config = transformers.LlamaConfig(**TEXT | {"max_position_embeddings": 20}, **rope, eos_token_id=None)
    folder = saved(transformers.LlamaForCausalLM(config), tmp_path / "llama", tokenizer())
    note = f"beyond the {trained} positions the model was trained for"
    for words in (trained - 2, trained - 1):  # and <s>, </s>
        answer = attn("top", "a " * words, "-m", folder, "-l", "0", "--json")
        assert answer.code == 0
        assert (note in answer.json["warnings"]) == (words == trained - 1)
    written = attn("top", "a " * (trained - 2), "-m", folder, "-l", "0", "--generate", "4", "--json")
    assert note in written.json["warnings"]


def test_a_text_too_long_for_positions_from_behind_the_padding_is_refused_before_the_run(tmp_path: Path) -> None:
    config = transformers.CamembertConfig(**TEXT | {"max_position_embeddings": 20}, pad_token_id=3)
    folder = saved(transformers.CamembertModel(config), tmp_path / "camembert", tokenizer())
    assert attn("heads", "a " * 14, "-m", folder).code == 0  # 16 tokens with <s> and </s>
    refused(attn("heads", "a " * 15, "-m", folder), 4, "the text has 17 tokens, the model has 16 positions")


def test_no_model_takes_itself() -> None:
    with pytest.raises(InputError, match=r"x\.npz: the model takes no self"):
        as_arguments(tiny("llama"), {"self": torch.ones(1, 3)}, "x.npz")


@pytest.mark.parametrize("shape", [(), (5,)])
@pytest.mark.parametrize("name", ["input_ids", "decoder_input_ids"])
def test_ids_are_rows(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=rf"x\.npz: {name} has shape"):
        file_prompt(tiny("llama"), None, {name: torch.ones(shape, dtype=torch.int64)}, "x.npz")


def test_names_that_no_module_of_a_model_takes_are_told() -> None:
    model, ids = tiny("llama"), torch.ones(1, 4, dtype=torch.int64)
    read = {"input_ids": ids, "position_ids": torch.tensor([[0, 2, 4, 6]])}
    swallowed = {"attention_masks": torch.zeros_like(ids), "head_mask": torch.zeros(2, 4)}
    assert torch.equal(model(**read, **swallowed)[0], model(**read)[0])
    told = file_prompt(model, None, read | swallowed, "x.npz").warnings
    assert told == ("the model ignores attention_masks, head_mask of x.npz",)


@pytest.mark.parametrize("kind", ["llama", "falcon", "got_ocr2"])
def test_a_mask_of_truth_values_is_read_as_the_model_by_default_reads_it(kind: str, tmp_path: Path) -> None:
    model, ids = tiny_model(kind, "tiny"), torch.arange(5, 13)[None]
    model.save_pretrained(tmp_path)
    default = type(model).from_pretrained(tmp_path).eval()
    mask = torch.ones(8, 8).tril().bool() & (torch.arange(8) != 2) | torch.eye(8, dtype=torch.bool)
    prompt = file_prompt(model, None, {"input_ids": ids, "attention_mask": mask[None, None]}, "x.npz")
    with torch.no_grad(), capture(model, lambda call: None):
        shown = model(**prompt.arrays).logits
    with torch.no_grad():
        torch.testing.assert_close(shown, default(input_ids=ids, attention_mask=mask[None, None]).logits)


def test_a_tokenizer_of_bytes_needs_no_vocabulary_file(tmp_path: Path) -> None:
    config = transformers.T5Config(vocab_size=384, d_model=32, d_kv=8, d_ff=48, num_layers=1, num_heads=2)
    saved(transformers.T5EncoderModel(config), tmp_path, transformers.ByT5Tokenizer())
    shown = attn("top", "né 東", "-m", tmp_path, "-k", "1", "--json").json["input"]["tokens"]
    assert [token["id"] for token in shown] == AutoTokenizer.from_pretrained(tmp_path)("né 東")["input_ids"]
    labels = [x for x in "né 東" for _ in x.encode()]
    assert [token["text"] for token in shown if not token["special"]] == labels
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "LlamaTokenizer"}')
    refused(attn("top", "a", "-m", tmp_path), 2, "made no tokens")


def test_a_padding_token_within_the_text_is_no_padding(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = transformers.XLMConfig(vocab_size=64, emb_dim=32, n_layers=2, n_heads=4, max_position_embeddings=64)
    config._attn_implementation = "eager"
    model = transformers.XLMModel(config).eval()
    saved(model, tmp_path, tokenizer())
    inputs = AutoTokenizer.from_pretrained(tmp_path)("a photo of cat", return_tensors="pt")
    assert config.pad_token_id in inputs["input_ids"]
    with torch.no_grad():
        own = [torch.stack(model(input_ids=inputs["input_ids"], attention_mask=mask, output_attentions=True).attentions)
               for mask in (inputs["attention_mask"], None)]  # fmt: skip
    assert float((own[0] - own[1]).abs().max()) > 0.1
    assert attn("matrix", "a photo of cat", "-m", tmp_path, "-o", tmp_path / "x.npz").code == 0
    with np.load(tmp_path / "x.npz") as found:
        np.testing.assert_allclose(found["weights"], own[0][:, 0].numpy(), atol=1e-5)


def test_a_file_of_a_models_folder_leads_to_the_folder(tmp_path: Path) -> None:
    saved(transformers.LlamaModel(transformers.LlamaConfig(**TEXT)), tmp_path)
    for file in ("config.json", "model.safetensors"):
        refused(attn("top", "a", "-m", tmp_path / file), 3, f"{file} is a file of a model", f"folder: {tmp_path}")
