"""The texts of one forward pass: how many there are, the labels of their tokens, and where their padding is."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from attn_cli.call import Place
from attn_cli.prompt import Token, numbered_tokens
from attn_cli.sources.huggingface.anatomy.configuration import is_pair
from attn_cli.sources.huggingface.anatomy.forward_arguments import arguments_of
from attn_cli.sources.huggingface.anatomy.streams import OWN_STREAMS

Labels = Sequence[Sequence[Token]]


class UnpaddedText(NamedTuple):
    """Where one text is in its padded batch element (slices `rows`, `keys`), and the tokens that label these."""

    rows: slice
    keys: slice
    queries: tuple[Token, ...]
    key_tokens: tuple[Token, ...]


class BatchLabels:
    """The tokens that label rows and columns, and the size and padding of the forward pass that runs now."""

    def __init__(
        self,
        model: nn.Module,
        texts: Labels | None = None,
        others: Sequence[Mapping[str, Sequence[Token]]] | None = None,  # by stream: decoder, vision, audio
        tokenizer: PreTrainedTokenizerBase | None = None,
    ) -> None:
        self.tokenizer = tokenizer if texts is None else None
        self.is_pair = is_pair(model)  # cross attention then goes from decoder to encoder
        self.texts, self.others = texts or (), others or ()
        self.size = max(1, len(texts or ()))
        self.given: set[str] = set()  # the names of the pass's arguments
        self.padding: dict[str, torch.Tensor] = {}  # "text" and "decoder": real tokens `[size, tokens]`, if not all are
        self._calls_of_text: dict[tuple[str, int], int] = {}
        self._labels: dict[tuple[Any, ...], tuple[Token, ...]] = {}  # by side, text and count

    def read_arguments(self, model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Forward pre-hook: read size and padding of the pass from the model's arguments."""
        arguments = arguments_of(model, args, kwargs)
        self.given = {name for name, value in arguments.items() if value is not None}
        main = next((arguments[x] for x in ("input_ids", "inputs_embeds") if arguments.get(x) is not None), None)
        if main is None:
            main = next((x for x in arguments.values() if isinstance(x, torch.Tensor) and x.ndim > 0), None)
        self.size = len(self.texts) or (1 if main is None else int(main.shape[0]))
        ids = arguments.get("input_ids")
        masks = {"text": arguments.get("attention_mask"), "decoder": arguments.get("decoder_attention_mask")}
        self.padding = {
            side: mask.bool()
            for side, mask in masks.items()
            if isinstance(mask, torch.Tensor) and mask.ndim == 2 and not bool(mask.all())
        }

        if self.tokenizer is not None:
            self._labels.clear()
            self.texts = self._decoded(ids, "text")
            decoders = self._decoded(arguments.get("decoder_input_ids"), "decoder")
            self.others = [{"decoder": tokens} for tokens in decoders]

    def _decoded(self, ids: object, side: str) -> list[tuple[Token, ...]]:
        tokenizer = self.tokenizer
        if tokenizer is None or not isinstance(ids, torch.Tensor) or ids.ndim != 2:
            return []
        special = set(tokenizer.all_special_ids)

        def token(at: int, number: int) -> Token:
            piece = str(tokenizer.decode([number]))
            return Token(at, piece.strip() or piece, number, special=number in special)

        rows = (row[self._unpadded(side, text, len(row))] for text, row in enumerate(ids.tolist()))
        return [tuple(token(at, number) for at, number in enumerate(row)) for row in rows]

    def place_of_text(self, place: Place, index: int, batch: int) -> Place:
        """`place` with the text of element `index` of a batch, and how often the module was called on it before."""
        text = min(index // max(1, batch // self.size), self.size - 1)
        call = self._calls_of_text.get((place.name, text), 0)
        self._calls_of_text[place.name, text] = call + 1
        return replace(place, text=text, call=call)

    def unpadded(
        self, place: Place, batch: int, n: int, m: int, found: tuple[slice, slice] | None = None
    ) -> UnpaddedText:
        """Where the text of `place` is among n queries and m keys, or was `found`, and the tokens that label it."""
        query_side, key_side = self._sides(place.stream, batch)
        text = place.text
        rows, keys = found or (self._unpadded(query_side, text, n, m - n), self._unpadded(key_side, text, m))
        queries = self._tokens(query_side, text, rows.stop - rows.start)
        key_tokens = self._tokens(key_side, text, keys.stop - keys.start)
        return UnpaddedText(rows, keys, queries, key_tokens)

    def _tokens(self, *key: Any) -> tuple[Token, ...]:
        if key not in self._labels:
            self._labels[key] = self._make_tokens(*key)
        return self._labels[key]

    def _make_tokens(self, side: str | None, text: int, count: int) -> tuple[Token, ...]:
        tokens = self._tokens_read(side, text)
        if len(tokens) != count:  # they may count the padding, which rows don't
            tokens = tokens[self._unpadded(side, text, len(tokens))]
        if side == "decoder" and len(tokens) != count:  # T5Gemma2 attends to both halves in one softmax
            tokens = (*tokens, *self._tokens_read("text", text))
        if len(tokens) == count:
            in_order = all(token.index == index for index, token in enumerate(tokens))
            return tuple(tokens if in_order else (replace(token, index=index) for index, token in enumerate(tokens)))
        return numbered_tokens(count)

    def _tokens_read(self, side: str | None, text: int) -> Sequence[Token]:
        if side == "text":
            return self.texts[text] if text < len(self.texts) else ()
        return self.others[text].get(side or "", ()) if text < len(self.others) else ()

    def _sides(self, stream: str, batch: int) -> tuple[str | None, str | None]:
        if batch != self.size and stream != "vision":  # a tower reads several images one by one
            return None, None
        if stream == "cross":
            return ("decoder", "text") if self.is_pair else ("text", None)
        side = stream if stream in OWN_STREAMS else None if stream == "resampler" else "text"
        return side, side

    def _unpadded(self, side: str | None, text: int, count: int, past: int = 0) -> slice:
        mask = self.padding.get(side or "")
        before = 0 if mask is None else mask.shape[1] - count
        if mask is None or before not in (0, max(past, 0)) or not bool(mask[text].any()):
            return slice(0, count)
        real = mask[text].nonzero()
        return slice(max(int(real[0]) - before, 0), max(int(real[-1]) + 1 - before, 0))
