"""Many texts as numbers of tokens, by one call of the tokenizer and without a label for each token."""

from collections.abc import Sequence
from itertools import chain

import numpy as np
from transformers import PreTrainedTokenizerBase

from attn_cli.encoded_text import EncodedText
from attn_cli.errors import LoadError


def encode(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[EncodedText]:
    """The tokens of each text, as `tokenize` finds them, with those that the tokenizer adds.

    Raises LoadError where the tokenizer can't read one of the texts.
    """
    try:
        encoding = tokenizer(
            list(texts),
            return_offsets_mapping=bool(tokenizer.is_fast),
            return_special_tokens_mask=True,
            return_attention_mask=False,
        )
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of Rust, which is no Exception
            raise
        raise LoadError(f"the tokenizer can't read a text: {error}", "is its tokenizer.json whole?") from error
    control = np.array(sorted(set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}), dtype=np.int64)
    ends = np.cumsum([len(numbers) for numbers in encoding["input_ids"]])[:-1]
    ids = np.array(list(chain.from_iterable(encoding["input_ids"])), np.int64)  # of all texts at once
    special = np.array(list(chain.from_iterable(encoding["special_tokens_mask"])), bool) | np.isin(ids, control)
    spans = np.full((len(ids), 2), -1)
    if (places := encoding.get("offset_mapping")) is not None and len(ids):
        spans = np.array(list(chain.from_iterable(places)), np.int64).reshape(-1, 2)
        spans[spans[:, 0] == spans[:, 1]] = -1
    parts = zip(*(np.split(x, ends) for x in (ids, special, spans)), strict=True)
    return [EncodedText(ids, special, spans[:, 0], spans[:, 1]) for ids, special, spans in parts]
