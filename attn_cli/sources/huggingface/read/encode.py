"""Many texts as numbers of tokens, by one call of the tokenizer and without a label for each token."""

from collections.abc import Sequence

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
    places = encoding.get("offset_mapping")
    return [
        _encoded(numbers, encoding["special_tokens_mask"][at], None if places is None else places[at], control)
        for at, numbers in enumerate(encoding["input_ids"])
    ]


def _encoded(
    numbers: Sequence[int], added: Sequence[int], places: Sequence[tuple[int, int]] | None, control: np.ndarray
) -> EncodedText:
    ids = np.array(numbers, dtype=np.int64)
    special = np.array(added, dtype=bool) | np.isin(ids, control)
    if places is None:
        nowhere = np.full(len(ids), -1)
        return EncodedText(ids, special, nowhere, nowhere)
    spans = np.array(places, dtype=np.int64).reshape(-1, 2)
    spans[spans[:, 0] == spans[:, 1]] = -1
    return EncodedText(ids, special, spans[:, 0], spans[:, 1])
