"""Random tokens of a model written twice, with what its tokenizer puts around a text."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice, takewhile

import torch
from transformers import PreTrainedTokenizerBase

from attn_cli.prompt import Prompt, Token
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.read.decoder_start import decoder_tokens
from attn_cli.sources.huggingface.read.positions import position_count
from attn_cli.sources.huggingface.read.tokenize import labels, tokenize
from attn_cli.sources.repeats import longest_repeat, repeat_lengths

_NAME = re.compile(r"[<\[].*[>\]]")  # of tokens that stand for no text: [unused7], <extra_id_0>, <0x0A>


def repeated_tokens(loaded: LoadedModel, seed: int, *, has_decoder: bool) -> list[Prompt]:
    """Three prompts, each of ordinary tokens drawn at random, R, written twice: R R. No token is in R twice.

    R has 37, 50 and 61 tokens, drawn by `seed`, `seed` + 1 and `seed` + 2; shorter in proportion where vocabulary or
    positions are few. A decoder reads the same after its start token. InputError where R would have fewer than 8
    tokens.
    """
    tokenizer, model = loaded.tokenizer, loaded.model
    assert tokenizer is not None
    start, end = _around(tokenizer)
    drawn = [list(islice(_ordinary(loaded, seed + more), 2 * longest_repeat())) for more in range(3)]
    limits = [position_count(model.config), position_count(model.config, decoder=True) if has_decoder else None]
    room = min((limit for limit in limits if limit is not None), default=1024) - len(start) - len(end) - has_decoder
    least = min(len(ids) for ids in drawn) // 2
    few = "too few positions" if room // 2 < least else "too few ordinary tokens in its vocabulary"
    lengths = repeat_lengths(min(least, room // 2), f"{loaded.about['model']} has {few}")
    first = decoder_tokens(loaded, None) if has_decoder else ()
    prompts = []
    for ids, length in zip(drawn, lengths, strict=True):
        repeated = ids[:length] * 2
        tokens = _labelled(tokenizer, [*(token.id for token in start), *repeated, *(token.id for token in end)])
        decoder = {"decoder": _labelled(tokenizer, [*(token.id for token in first), *repeated])} if has_decoder else {}
        prompts.append(Prompt("", tokens, others=decoder))
    return prompts


def _labelled(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int | None]) -> tuple[Token, ...]:
    return labels(tokenizer, torch.tensor([ids]))


def _around(tokenizer: PreTrainedTokenizerBase) -> tuple[list[Token], list[Token]]:
    """The special tokens that the tokenizer puts before and after a text."""
    tokens = tokenize(tokenizer, ["a"], [None])[0].tokens
    start = list(takewhile(lambda token: token.special, tokens))
    end = list(takewhile(lambda token: token.special, tokens[len(start) :][::-1]))
    return start, end[::-1]


def _ordinary(loaded: LoadedModel, seed: int) -> Iterator[int]:
    """Ids in a random order: none special, unused or undecodable, and all among those that the model embeds."""
    tokenizer = loaded.tokenizer
    assert tokenizer is not None
    embedded = getattr(loaded.of_transformers.get_input_embeddings(), "num_embeddings", None) or len(tokenizer)
    left_out = {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}
    random = torch.Generator().manual_seed(seed)
    for number in torch.randperm(min(len(tokenizer), embedded), generator=random).tolist():
        text = "" if number in left_out else tokenizer.decode([number]).strip()
        name = str(tokenizer.convert_ids_to_tokens(number))
        if text and "\ufffd" not in text and not _NAME.fullmatch(text) and not _NAME.fullmatch(name):
            yield number
