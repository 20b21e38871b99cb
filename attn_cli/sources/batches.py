"""Texts of lengths that run well: long documents in pieces, and batches of about the same length, padded little."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from attn_cli.errors import InputError
from attn_cli.prompt import EncodedText

if TYPE_CHECKING:  # most commands read no corpus
    from attn_cli.sources.corpora import Document

_ANY_LENGTH = 8  # texts of --lines that run together whatever their length
_TOKENS = 2048  # of a larger batch, padding included
_NEAR = 4  # tokens: texts that differ by no more are always alike


def batches_by_length(
    lengths: Sequence[int], most: int, *, tokens: int = _TOKENS, together: int = _ANY_LENGTH, alike: float = math.inf
) -> list[list[int]]:
    """The indices of texts in batches of similar lengths, the shortest texts first."""
    batches: list[list[int]] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        size = len(batches[-1]) + 1 if batches else most + 1
        fits = size <= most and (size <= together or size * lengths[place] <= tokens)
        if fits and lengths[place] <= alike * lengths[batches[-1][0]] + _NEAR:
            batches[-1].append(place)
        else:
            batches.append([place])
    return batches


def pieces_of(
    document: "Document", encode: Callable[[Sequence[str]], Sequence[EncodedText]], size: int
) -> Iterator["Document"]:
    """The pieces of up to `size` tokens that a long document is cut into, in order, if possible at ends of words."""
    text, (tokens,) = document.text, encode([document.text])
    placed = tokens.starts >= 0
    starts, ends, room = tokens.starts[placed].tolist(), tokens.ends[placed].tolist(), size - int((~placed).sum())
    if len(tokens.ids) <= size or not starts:
        yield document
        return
    if room < 1:
        line = f"--max-tokens {size} has no room for text: the tokenizer adds {size - room} tokens"
        raise InputError(line, f"--max-tokens {size - room + 2} or more")
    first = number = begin = 0
    while first < len(starts):
        most = min(first + room, len(starts))
        tried = range(most, first + (room + 1) // 2, -1) if most < len(starts) else ()
        stop = next((at for at in tried if starts[at] > ends[at - 1] or text[starts[at]].isspace()), most)
        end = len(text) if stop == len(starts) else ends[stop - 1]
        yield document._replace(text=text[begin:end], piece=number)
        first, number, begin = stop, number + 1, end
