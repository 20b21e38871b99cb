"""Translators: the decoder reads what the tokenizer's target side makes of a text, shifted right."""

import json
import sys
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    M2M100Config,
    M2M100ForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    MarianTokenizer,
    MBart50Tokenizer,
    MBartConfig,
    MBartForConditionalGeneration,
    MBartTokenizer,
    NllbTokenizer,
    PreTrainedTokenizerFast,
)
from transformers.models.mbart.tokenization_mbart import FAIRSEQ_LANGUAGE_CODES

from tests.architectures.tiny import enlivened
from tests.program import attn

SIZES = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4,
         "decoder_attention_heads": 4, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "max_position_embeddings": 64,
         "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "forced_eos_token_id": None}  # fmt: skip
TEXT, TARGET = "the cat", "la chatte"
KINDS = ("nllb", "mbart", "mbart50")


def tokenizer_of(kind: str) -> Any:
    if kind == "nllb":
        letters = {letter: 4 + at for at, letter in enumerate("▁abcdefghijklmnopqrstuvwxyz")}
        return NllbTokenizer(vocab={"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, **letters}, merges=[])
    names = ["<s>", "<pad>", "</s>", "<unk>", "▁", *(f"▁{word}" for word in f"{TEXT} {TARGET}".split())]
    names += [*FAIRSEQ_LANGUAGE_CODES, *(["pt_XX"] if kind == "mbart50" else []), "<mask>"]
    cls = MBartTokenizer if kind == "mbart" else MBart50Tokenizer
    return cls(vocab=[(name, -float(at)) for at, name in enumerate(names)], src_lang="en_XX", tgt_lang="ro_RO")


@pytest.fixture(scope="module", params=KINDS)
def translator(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny translator; mBART's decoder starts with its language, the others' with the end token."""
    kind, folder = request.param, tmp_path_factory.mktemp("translator")
    tokenizer = tokenizer_of(kind)
    model, config = (
        (M2M100ForConditionalGeneration, M2M100Config)
        if kind == "nllb"
        else (MBartForConditionalGeneration, MBartConfig)
    )
    start = tokenizer.convert_tokens_to_ids("ro_RO") if kind == "mbart" else 2
    whole = model(config(vocab_size=len(tokenizer), decoder_start_token_id=start, **SIZES))
    enlivened(whole).save_pretrained(folder)
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


def side(words: str) -> PreTrainedTokenizerFast:
    names = ["<pad>", "<s>", "</s>", "<unk>", *words.split()]
    backend = Tokenizer(WordLevel({name: at for at, name in enumerate(names)}, unk_token="<unk>"))
    backend.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", add_eos_token=True
    )


def trained(lines: list[str], prefix: Path) -> list[str]:
    """The pieces of a SentencePiece model of these lines, kept in `prefix`.model."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 20), model_prefix=str(prefix), vocab_size=40,
        hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    pieces = sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")
    return [pieces.IdToPiece(at) for at in range(3, pieces.GetPieceSize())]


@pytest.mark.parametrize("separate", [False, True])
def test_marian_has_two_sentencepiece_models(tmp_path: Path, separate: bool) -> None:
    texts = {"source": ["the house is small", "a cat is at the house"], "target": ["das haus ist klein", "die katze"]}
    vocabularies = [trained(lines, tmp_path / name) for name, lines in texts.items()]
    both = [["</s>", "<unk>", "<pad>", *pieces] for pieces in vocabularies]
    if not separate:
        both = [list(dict.fromkeys(both[0] + both[1]))] * 2
    files = [tmp_path / "source.json", tmp_path / "target.json"]
    for file, names in zip(files, both, strict=True):
        file.write_text(json.dumps({name: at for at, name in enumerate(names)}))
    tokenizer = MarianTokenizer(
        *(str(tmp_path / f"{name}.model") for name in texts), *map(str, files), separate_vocabs=separate
    )
    ids = {"pad_token_id": 2, "decoder_start_token_id": 2, "bos_token_id": None, "eos_token_id": 0}
    apart = {"share_encoder_decoder_embeddings": not separate, "decoder_vocab_size": len(both[1])}
    model = MarianMTModel(MarianConfig(**(SIZES | ids | apart), vocab_size=len(both[0])))
    enlivened(model).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    run = attn("top", "the house", "-m", tmp_path, "--pair", "das haus", "--json").json["input"]
    assert [token["id"] for token in run["streams"]["decoder"]] == [
        2,
        *tokenizer(text_target="das haus").input_ids[:-1],
    ]
    assert "".join(token["text"] for token in run["tokens"][:-1]).replace("▁", "") == "thehouse"
