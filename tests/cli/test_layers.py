"""attn layers: true block numbers on hybrid stacks, windows, caps, sinks, streams; in every format."""

import json
import sys
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    MarianConfig,
    MarianMTModel,
    MarianTokenizer,
    MBartConfig,
    MBartForConditionalGeneration,
    MBartTokenizer,
)
from transformers.models.mbart.tokenization_mbart import FAIRSEQ_LANGUAGE_CODES

from tests.architectures.check import built
from tests.architectures.tiny import enlivened
from tests.program import attn, refused
from tests.real_models import MINILM
from tests.views.test_schemas import hold


def saved(name: str, folder: Path) -> list[str]:
    """The options that open a tiny model of that type with its inputs."""
    model, inputs = built(name)
    model.save_pretrained(folder / "model")
    arrays = {key: x.numpy() for key, x in inputs.items() if isinstance(x, torch.Tensor)}
    np.savez(folder / "inputs.npz", **arrays)
    return ["-m", str(folder / "model"), "-F", str(folder / "inputs.npz")]


def mapped(name: str, folder: Path) -> list[dict[str, Any]]:
    run = attn("layers", *saved(name, folder), "--json")
    hold(run, "layers")
    rows: list[dict[str, Any]] = run.json["tables"]["layers"]
    return rows


@pytest.mark.parametrize(
    ("name", "mixer"),
    [
        ("jamba", ["Mamba", "softmax attention", "Mamba", "softmax attention"]),
        ("qwen3_next", ["linear attention", "softmax attention"]),
        ("lfm2_moe", ["convolution", "softmax attention"]),
        ("recurrent_gemma", ["recurrence", "softmax attention"]),
        ("zamba2", ["Mamba", "softmax attention", "Mamba", "softmax attention"]),
    ],
)
def test_blocks_without_softmax_attention_keep_their_numbers(name: str, mixer: list[str], tmp_path: Path) -> None:
    rows = mapped(name, tmp_path)
    assert [(row["layer"], row["mixer"]) for row in rows] == list(enumerate(mixer))
    for row in rows:
        assert (row["way"] is None) == (row["heads"] == 0) == (row["mixer"] != "softmax attention")


@pytest.mark.parametrize(
    ("name", "columns", "rows"),
    [
        ("gemma2", "mask softcap scale heads kv_heads sink bias way", [
            ("window 4, causal", 2.0, 0.25, 4, 2, False, False, "registry"),
            ("causal", 2.0, 0.25, 4, 2, False, False, "registry"),
        ]),
        ("gpt_oss", "sink", [(True,), (True,)]),
        ("bloom", "mask scale way", [("causal", None, "softmax")] * 2),  # weights alone tell whether it is causal
        ("albert", "calls", [(2,)]),  # shared layers run several times
        ("t5", "stream layer mask bias", [
            ("encoder", 0, "no mask", True), ("encoder", 1, "no mask", True), ("decoder", 0, "causal", True),
            ("decoder", 1, "causal", True), ("cross", 0, "no mask", True), ("cross", 1, "no mask", True),
        ]),
    ],
)  # fmt: skip
def test_rules_of_layers(name: str, columns: str, rows: list[tuple[Any, ...]], tmp_path: Path) -> None:
    assert [tuple(row[column] for column in columns.split()) for row in mapped(name, tmp_path)] == rows


@pytest.mark.parametrize(
    ("name", "stream", "left_out", "needs"),
    [
        ("qwen2_vl", "vision", ["pixel_values", "image_grid_thw"], "pixel_values or pixel_values_videos"),
        ("qwen2_audio", "audio", ["input_features", "feature_attention_mask"], "input_features"),
    ],
)
def test_a_tower_that_had_nothing_to_see_is_listed_as_such(
    name: str, stream: str, left_out: list[str], needs: str, tmp_path: Path
) -> None:
    options = saved(name, tmp_path)
    whole = attn("layers", *options, "--json").json["tables"]["layers"]
    with np.load(tmp_path / "inputs.npz") as arrays:
        np.savez(tmp_path / "inputs.npz", **{key: arrays[key] for key in arrays.files if key not in left_out})
    run = attn("layers", *options, "--json")
    hold(run, "layers")
    rows = run.json["tables"]["layers"]
    assert sorted((row["stream"], row["layer"], row["name"]) for row in rows) == sorted(
        (row["stream"], row["layer"], row["name"]) for row in whole
    )
    for row in rows:
        attends = row["mixer"] == "softmax attention"
        idle = row["stream"] == stream and attends
        assert row["note"] == (f"did not run: needs {needs}" if idle else None)
        assert (row["calls"] > 0) == (attends and not idle)
        assert (row["heads"] > 0) == attends
    shown = attn("layers", *options, env={"COLUMNS": "40"})
    assert f"did not run: {stream}, which needs {needs}" in " ".join(shown.text.split())
    assert max(map(len, shown.lines[1:])) <= 40


def test_clip_without_an_image_is_refused_with_what_it_lacks(tmp_path: Path) -> None:
    options = saved("clip", tmp_path)
    with np.load(tmp_path / "inputs.npz") as arrays:
        np.savez(tmp_path / "inputs.npz", input_ids=arrays["input_ids"])
    refused(attn("layers", *options), 2, "(clip) was given no pixel_values and can't be run: ", "-F FILE.npz")


def test_a_type_without_softmax_attention(tmp_path: Path) -> None:
    refused(attn("layers", *saved("mamba", tmp_path)), 3, "(mamba) has no softmax attention")


def test_blocks_that_differ_in_their_number_alone_share_a_line() -> None:
    run = attn("layers", "-m", MINILM, env={"COLUMNS": "120"})
    assert [line.split() for line in run.lines if line.startswith("  0")] == [
        ["0-5", "softmax", "attention", "12", "12", "32", "no", "mask", "0.1768", "1"]
    ]


def test_a_table_has_one_layer() -> None:
    run = attn("layers", "--json")
    hold(run, "layers")
    (only,) = run.json["tables"]["layers"]
    assert (only["heads"], only["way"], only["mask"]) == (4, "computed", "no mask")


SIZES = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4,
         "decoder_attention_heads": 4, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "max_position_embeddings": 64,
         "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "forced_eos_token_id": None}  # fmt: skip
TEXT, TARGET = "the cat", "la chatte"


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny mBART, whose decoder starts with its language."""
    folder = tmp_path_factory.mktemp("translator")
    names = ["<s>", "<pad>", "</s>", "<unk>", "▁", *(f"▁{word}" for word in f"{TEXT} {TARGET}".split())]
    vocab = [(name, -float(at)) for at, name in enumerate([*names, *FAIRSEQ_LANGUAGE_CODES, "<mask>"])]
    tokenizer = MBartTokenizer(vocab=vocab, src_lang="en_XX", tgt_lang="ro_RO")
    config = MBartConfig(vocab_size=len(tokenizer), decoder_start_token_id=2, **SIZES)  # which its module ignores
    enlivened(MBartForConditionalGeneration(config)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def decoder_ids(*arguments: object) -> list[int]:
    run = attn("top", TEXT, *arguments, "--json")
    assert run.code == 0, run.errors
    return [token["id"] for token in run.json["input"]["streams"]["decoder"]]


def shifted(model: Any, labels: list[int]) -> list[int]:
    """The decoder's tokens, as the model's own module makes them of labels."""
    shift = sys.modules[type(model).__module__].shift_tokens_right
    ids = (model.config.pad_token_id, model.config.decoder_start_token_id)
    moved: list[int] = shift(torch.tensor([labels]), *ids[: len(signature(shift).parameters) - 1])[0].tolist()
    return moved


def test_a_decoder_reads_the_labels_of_the_target_side_shifted(translator: Path) -> None:
    folder = translator
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    right = shifted(model, tokenizer(text_target=TARGET)["input_ids"])
    assert decoder_ids("-m", folder, "--pair", TARGET) == right


def trained(lines: list[str], prefix: Path) -> list[str]:
    """The pieces of a SentencePiece model of these lines, kept in `prefix`.model."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 20), model_prefix=str(prefix), vocab_size=40,
        hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    pieces = sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")
    return [pieces.IdToPiece(at) for at in range(3, pieces.GetPieceSize())]


def test_marian_has_two_sentencepiece_models(tmp_path: Path) -> None:
    texts = {"source": ["the house is small", "a cat is at the house"], "target": ["das haus ist klein", "die katze"]}
    vocabularies = [trained(lines, tmp_path / name) for name, lines in texts.items()]
    both = [["</s>", "<unk>", "<pad>", *pieces] for pieces in vocabularies]
    files = [tmp_path / "source.json", tmp_path / "target.json"]
    for file, names in zip(files, both, strict=True):
        file.write_text(json.dumps({name: at for at, name in enumerate(names)}))
    tokenizer = MarianTokenizer(
        *(str(tmp_path / f"{name}.model") for name in texts), *map(str, files), separate_vocabs=True
    )
    ids = {"pad_token_id": 2, "decoder_start_token_id": 2, "bos_token_id": None, "eos_token_id": 0}
    apart = {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": len(both[1])}
    model = MarianMTModel(MarianConfig(**(SIZES | ids | apart), vocab_size=len(both[0])))
    enlivened(model).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    run = attn("top", "the house", "-m", tmp_path, "--pair", "das haus", "--json").json["input"]
    assert [token["id"] for token in run["streams"]["decoder"]] == [
        2,
        *tokenizer(text_target="das haus").input_ids[:-1],
    ]
    assert "".join(token["text"] for token in run["tokens"][:-1]).replace("▁", "") == "thehouse"
