"""The tokens that the decoder of an encoder-decoder reads: its start token, then the user's text."""

from dataclasses import replace
from typing import Any

from attn_cli.errors import LoadError
from attn_cli.prompt import Token
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.read.tokenize import tokenize


def decoder_tokens(loaded: LoadedModel, text: str | None) -> tuple[Token, ...]:
    """What a decoder reads: its start token and the tokens of `text`, without the end token; None: the start alone."""
    start = _start(loaded)
    if loaded.tokenizer is None:  # of a model that reads images or audio
        if text is not None:
            raise LoadError(
                f"{loaded.about['model']} has no tokenizer for --decoder-text",
                "copy the tokenizer files of the original model into the folder",
            )
        return (Token(0, str(start), start, special=True),)
    first = Token(0, str(loaded.tokenizer.convert_ids_to_tokens(start)), start, special=True)
    tokens = tokenize(loaded.tokenizer, [text], [None])[0].tokens if text is not None else ()
    if tokens and tokens[-1].id == loaded.tokenizer.eos_token_id:
        tokens = tokens[:-1]
    if tokens and tokens[0].id == start:
        tokens = tokens[1:]
    return (
        first,
        *(
            # its offsets are in the decoder's text, not in the prompt's
            replace(token, index=index, start=None, end=None)
            for index, token in enumerate(tokens, 1)
        ),
    )


def _start(loaded: LoadedModel) -> int:
    """The id of the start token, from the first configuration that names one."""
    config = loaded.model.config
    sources: list[Any] = [config, getattr(config, "decoder", None), getattr(loaded.model, "generation_config", None)]
    for name in ("decoder_start_token_id", "bos_token_id", "pad_token_id"):
        for source in sources:
            value = getattr(source, name, None)
            if isinstance(value, int):
                return value
    raise LoadError("the model doesn't say which token its decoder starts with", "give --inputs with decoder_input_ids")
