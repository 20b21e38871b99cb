"""Tiny models in folders, one of whose files is spoilt. Files are copied, never linked."""

import random
import shutil
from pathlib import Path

import torch
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM

from tests.fuzz.kinds.case import Case, Make
from tests.media import SPECIAL, WORDS, tokenizer
from tests.spoiling import spoilt, spoilt_json

_SIZES = {"vocab_size": len(SPECIAL) + len(WORDS), "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
          "intermediate_size": 16, "max_position_embeddings": 64}  # fmt: skip
_TEMPLATE = "{% for m in messages %}{{ m['role'] }} : {{ m['content'] }} {% endfor %}"
_COMMANDS = (("top", "the cat"), ("heads", "a photo"), ("layers",), ("inspect", "the cat sat"))


def encoder(folder: Path) -> Path:
    """A BERT of two layers that reads words."""
    torch.manual_seed(0)
    BertModel(BertConfig(**_SIZES)).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def chatting(folder: Path) -> Path:
    """A Llama of two layers that takes messages."""
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(**_SIZES, num_key_value_heads=1)).save_pretrained(folder)
    tokenizer(chat_template=_TEMPLATE).save_pretrained(folder)
    return folder


def model(shared: Path) -> Make:
    """A model's folder with one file spoilt."""
    folders = encoder(shared / "bert"), chatting(shared / "llama")

    def make(folder: Path, chance: random.Random) -> Case:
        copy = Path(shutil.copytree(chance.choice(folders), folder / "model"))
        file = chance.choice(sorted(copy.iterdir()))
        content = file.read_bytes()
        file.write_bytes(spoilt_json(content, chance) if file.suffix == ".json" else spoilt(content, chance))
        return Case((*chance.choice(_COMMANDS), "-m", "model", *chance.choice(((), ("--json",)))))

    return make
