"""Tiny models in folders: an encoder, and one that chats."""

from pathlib import Path

import torch
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM

from tests.media import SPECIAL, WORDS, tokenizer

_SIZES = {"vocab_size": len(SPECIAL) + len(WORDS), "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
          "intermediate_size": 16, "max_position_embeddings": 64}  # fmt: skip
_TEMPLATE = "{% for m in messages %}{{ m['role'] }} : {{ m['content'] }} {% endfor %}"


def encoder(folder: Path) -> Path:
    torch.manual_seed(0)
    BertModel(BertConfig(**_SIZES)).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def chatting(folder: Path) -> Path:
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(**_SIZES, num_key_value_heads=1)).save_pretrained(folder)
    tokenizer(chat_template=_TEMPLATE).save_pretrained(folder)
    return folder
