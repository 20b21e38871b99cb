"""The texts of one forward pass: how many there are, what their tokens are called, where their padding is."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import nn

from attn_cli.call import Place
from attn_cli.prompt import Token
from attn_cli.sources.huggingface.anatomy.forward_arguments import given_to

Labels = Sequence[Sequence[Token]]
# Streams whose queries and keys are tokens of the text, and those that have tokens of their own.
_OF_TEXT = {"self", "text", "encoder"}
_OWN = {"decoder", "vision", "audio"}


class Part(NamedTuple):
    """The rows and keys of one text between its padding, and what they are called."""

    rows: slice
    keys: slice
    queries: tuple[Token, ...]
    key_tokens: tuple[Token, ...]


@lru_cache(8)
def numbered(count: int) -> tuple[Token, ...]:
    """Tokens that nobody named: their numbers."""
    return tuple(Token(index, str(index)) for index in range(count))


class Texts:
    """Labels of the texts, and what the running forward pass was given.

    others   for every text the labels of the streams that read something else, by stream: decoder, vision, audio
    size     how many texts the pass has
    length   how many tokens it was given, None if it was given none
    padding  for "text" and "decoder" which tokens are real `[size, tokens]`, where the pass was told that some aren't
    ends     where the piece of an image ends that a module saw in a call, among the tokens of all: by name, text, call
    """

    def __init__(
        self, texts: Labels | None, others: Sequence[Mapping[str, Sequence[Token]]] | None, *, halves: bool
    ) -> None:
        self.halves = halves  # cross attention is from a decoder to an encoder
        self.texts, self.others = texts or (), others or ()
        self.size = max(1, len(texts or ()))
        self.length: int | None = None
        self.padding: dict[str, torch.Tensor] = {}
        self.ends: dict[tuple[str, int, int], int] = {}
        self._labels: dict[tuple[str | None, int, int], tuple[Token, ...]] = {}

    def read(self, model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Note the number of texts and their padding before a pass; a forward pre-hook."""
        given = given_to(model, args, kwargs)
        first = next((given[x] for x in ("input_ids", "inputs_embeds") if given.get(x) is not None), None)
        if first is None:
            first = next((x for x in given.values() if isinstance(x, torch.Tensor) and x.ndim > 0), None)
        known = len(self.texts)
        self.size = known if known else 1 if first is None else int(first.shape[0])
        self.length = None if given.get("input_ids") is None else int(given["input_ids"].shape[-1])
        masks = {"text": given.get("attention_mask"), "decoder": given.get("decoder_attention_mask")}
        self.padding = {
            side: mask.bool()
            for side, mask in masks.items()
            if isinstance(mask, torch.Tensor) and mask.ndim == 2 and not bool(mask.all())
        }

    def of(self, index: int, batch: int) -> int:
        """Which text an element of a batch of `batch` belongs to.

        A batch can be larger than the number of texts: windows of an image are batched too.
        """
        return min(index // max(1, batch // self.size), self.size - 1)

    def part(self, place: Place, batch: int, n: int, m: int) -> Part:
        """What is real among n queries and m keys of an element of a batch of `batch`, labelled."""
        if piece := self._piece(place, n, m):
            return Part(slice(0, n), slice(0, m), piece, piece)
        query_side, key_side = self._sides(place.stream) if batch == self.size else (None, None)
        rows, keys = self._real(query_side, place.text, n, m - n), self._real(key_side, place.text, m)
        return self.labelled(place, batch, rows, keys)

    def labelled(self, place: Place, batch: int, rows: slice, keys: slice) -> Part:
        """These rows and keys of an element of a batch of `batch`, with what they are called."""
        query_side, key_side = self._sides(place.stream) if batch == self.size else (None, None)
        queries = self._tokens(query_side, place.text, rows.stop - rows.start)
        return Part(rows, keys, queries, self._tokens(key_side, place.text, keys.stop - keys.start))

    def _tokens(self, side: str | None, text: int, count: int) -> tuple[Token, ...]:
        """The text's tokens if there are as many as asked, otherwise numbers; the same object for every layer."""
        asked = (side, text, count)
        if asked not in self._labels:
            self._labels[asked] = self._labelled(*asked)
        return self._labels[asked]

    def _labelled(self, side: str | None, text: int, count: int) -> tuple[Token, ...]:
        known = self._known(side, text)
        if side == "decoder" and len(known) != count:  # T5Gemma2 attends to both halves in one softmax
            known = (*known, *self._known("text", text))
        if len(known) == count:
            return tuple(replace(token, index=index) for index, token in enumerate(known))
        return numbered(count)

    def _piece(self, place: Place, n: int, m: int) -> tuple[Token, ...]:
        """The tokens of a call that attends within some pieces of an image, such as a tile or a window; else none.

        A module is called for all of them, one after the other.
        """
        known = self._known(place.stream, place.text) if place.stream in _OWN else ()
        if n != m or n >= len(known) or all(token.piece is None for token in known):
            return ()
        start = self.ends.get((place.name, place.text, place.call - 1), 0)
        end = self.ends[place.name, place.text, place.call] = start + n
        bounds = {0, len(known)} | {at for at in range(1, len(known)) if known[at - 1].piece != known[at].piece}
        if not {start, end} <= bounds:
            return ()
        return tuple(replace(token, index=index) for index, token in enumerate(known[start:end]))

    def _known(self, side: str | None, text: int) -> Sequence[Token]:
        if side == "text":
            return self.texts[text] if text < len(self.texts) else ()
        return self.others[text].get(side or "", ()) if text < len(self.others) else ()

    def _sides(self, stream: str) -> tuple[str | None, str | None]:
        """Whose tokens the queries and the keys of a stream are."""
        if stream == "cross":
            return ("decoder", "text") if self.halves else ("text", None)
        side = stream if stream in _OWN else "text" if stream in _OF_TEXT else None
        return side, side

    def _real(self, side: str | None, text: int, count: int, past: int = 0) -> slice:
        """The tokens of a text from the first real one to the last, as positions among `count`.

        `past` keys lie before the first query where a cache holds them.
        """
        mask = self.padding.get(side or "")
        before = 0 if mask is None else mask.shape[1] - count
        if mask is None or before not in (0, max(past, 0)) or not bool(mask[text].any()):
            return slice(0, count)
        real = mask[text].nonzero()
        return slice(max(int(real[0]) - before, 0), max(int(real[-1]) + 1 - before, 0))
