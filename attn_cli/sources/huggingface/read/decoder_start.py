"""The tokens that the decoder of an encoder-decoder reads: its start token, then the user's text."""

import sys
from dataclasses import replace
from inspect import signature
from typing import Any

from attn_cli.errors import LoadError
from attn_cli.prompt import Prompt, Token
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.read.tokenize import tokenize


def decoder_tokens(loaded: LoadedModel, text: str | None) -> tuple[tuple[Token, ...], tuple[str, ...]]:
    """What a decoder reads: `text` as labels, shifted right; of None the start token alone; notes on the text."""
    start, tokenizer, name = _start(loaded), loaded.tokenizer, loaded.about["model"]
    if tokenizer is None:  # of a model that reads images or audio
        if text is not None:
            hint = "copy the tokenizer files of the original model into the folder"
            raise LoadError(f"{name} has no tokenizer for its decoder's text", hint)
        return (Token(0, str(start), start, special=True),), ()
    read = Prompt("", ()) if text is None else tokenize(tokenizer, text, target=True)
    tokens = read.tokens
    if tokens and (tokens[-1].id == tokenizer.eos_token_id or (tokens[-1].special and tokens[-1].start is None)):
        shift = getattr(sys.modules[type(loaded.model).__module__], "shift_tokens_right", None)
        if shift is not None and "decoder_start_token_id" not in signature(shift).parameters:  # as of mBART
            start = int(tokens[-1].id or 0)
        tokens = tokens[:-1]
    if tokens and tokens[0].id == start:
        tokens = tokens[1:]
    # its offsets are in the decoder's text, not in the prompt's
    after = (replace(token, index=index, start=None, end=None) for index, token in enumerate(tokens, 1))
    return (Token(0, str(tokenizer.convert_ids_to_tokens(start)), start, special=True), *after), read.warnings


def _start(loaded: LoadedModel) -> int:
    config = loaded.model.config
    sources: list[Any] = [config, getattr(config, "decoder", None), getattr(loaded.model, "generation_config", None)]
    for name in ("decoder_start_token_id", "bos_token_id", "pad_token_id"):
        for source in sources:
            value = getattr(source, name, None)
            if isinstance(value, int):
                return value
    raise LoadError(
        "the model doesn't say which token its decoder starts with", "give decoder_input_ids in -F FILE.npz"
    )
