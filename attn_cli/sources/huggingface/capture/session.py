"""Seeing every attention layer of a transformers model in its own forward pass.

transformers looks its attention code up in a registry at every call. While a capture is open, the entry "eager" is
attn's own function, and so is the mask function of that name; the models' configurations say "eager". The function
gets q and k (after rotary positions), v, the mask and the scale of every layer, shows them to the visitor as an
`AttentionCall`, and goes on with the output that was computed on the way. Everything is put back at the end.

Why the key "eager" and not one of our own: some models test for that name and silently attend differently under an
unknown one, others choose classes by it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from attn_cli.call import AttentionCall, Call, Output, Place
from attn_cli.prompt import Token
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.anatomy.softmax_in_code import attention_modules
from attn_cli.sources.huggingface.anatomy.streams import Seat, Seats
from attn_cli.sources.huggingface.capture.batch_labels import Part, Texts
from attn_cli.sources.huggingface.capture.function_mode import watching
from attn_cli.sources.huggingface.capture.layer_rule import LayerRule, scale_of, sink_of
from attn_cli.sources.huggingface.capture.lazy_mask import lazy_mask
from attn_cli.sources.huggingface.capture.own_code import Fallback
from attn_cli.sources.huggingface.capture.registry import all_named, replaced, watched_backends

Visit = Callable[[Call], None]
EVERYTHING = Selection()
# Models whose blocks run again after the last one: nobody knows from the outside when they have run for the last time.
CYCLING = {"hrm_text", "efficientloftr"}


class Enough(Exception):
    """Ends a forward pass after the last asked layer; not an error."""


@contextmanager
def capture(
    model: PreTrainedModel,
    visit: Visit,
    *,
    selection: Selection = EVERYTHING,
    texts: Sequence[Sequence[Token]] | None = None,
    others: Sequence[Mapping[str, Sequence[Token]]] | None = None,
    until_asked: bool = False,
    backend: Literal["attn", "model"] = "attn",
) -> Iterator["Capture"]:
    """While open, `visit` is called once per asked layer and text of every forward pass of `model`.

    texts  the tokens of each text of the batch, to label rows and columns; without them they are numbered. Padding is
           cut away either way: a padded text is seen as if it ran alone.
    others  for each text the tokens of the streams that read something else, by stream: decoder, vision, audio
    until_asked  end the pass after the last asked layer: an exception is raised through the model and caught here. For
                 those who don't need the model's output, which then there is none of
    backend  "model" leaves the model's own attention in place, whatever it is, and looks at its queries, keys and
             values beside it: for those who ask what that backend does. Only asked rows are computed again.

    Attention that does not ask the registry is seen by other means (`watch`); `Place.way` says which one served.

    The model's outputs stay what they were to within rounding, its configuration is put back at the end. The registry
    of transformers is one for the whole process: don't run other models in other threads meanwhile.

        with capture(model, lambda call: found.append(reduce(call, TopKeys(5)))):
            model(**inputs)
    """
    seen = Capture(model, visit, selection, texts, others)
    if until_asked:
        seen.wait_for_asked(model)
    with ExitStack() as stack:
        if backend == "attn":
            stack.enter_context(replaced(AttentionInterface, {"eager": seen.attention}))
            stack.enter_context(replaced(AttentionMaskInterface, {"eager": lazy_mask}))
            stack.enter_context(all_named(model, "eager"))
        else:
            seen.beside = True
            stack.enter_context(replaced(AttentionInterface, watched_backends(model, seen.look)))
        reading = model.register_forward_pre_hook(seen.texts.read, with_kwargs=True)
        stack.callback(reading.remove)
        stack.enter_context(watching(model, seen.fallback))
        stack.enter_context(suppress(Enough))
        yield seen


class Capture:
    """The attention function of an open capture, and what it has seen so far.

    layers  how often each (stream, block number) was called
    blocks  how many blocks each stream has
    unseen  the places of asked modules that ran and must have attended, but showed nothing
    others  the places of attention modules whose softmax is not over keys
    """

    def __init__(
        self,
        model: PreTrainedModel,
        visit: Visit,
        selection: Selection,
        texts: Sequence[Sequence[Token]] | None,
        others: Sequence[Mapping[str, Sequence[Token]]] | None,
    ) -> None:
        self.fallback = Fallback(self)
        self.seats = Seats(model)
        self.visit, self.selection = visit, selection
        self.texts = Texts(texts, others, halves=bool(getattr(model.config, "is_encoder_decoder", False)))
        self.layers: dict[tuple[str, int], int] = {}
        self.blocks: dict[str, int] = {}
        self.unseen: list[Seat] = []
        self.others: list[Seat] = []
        self.modules: dict[nn.Module, int] = {}
        self.waited_for: dict[nn.Module, int] = {}
        self.beside = False
        self.shown: dict[tuple[str, int], int] = {}

    def seat(self, module: nn.Module, call: int = 0) -> Seat:
        """Where the module sits when it runs for the `call`-th time: where it is built into several blocks, in turn."""
        known = self.seats.of(module)
        if not known:
            return Seat(getattr(module, "layer_idx", None) or 0, type(module).__name__, "self", 1)
        return known[call % len(known)]

    def place(self, module: nn.Module, way: str) -> tuple[Place, bool]:
        """The place of the call that `module` makes now, and whether it was asked for."""
        if self.waited_for and module not in self.waited_for and self._enough:
            raise Enough
        call = self.modules.get(module, 0)
        self.modules[module] = call + 1
        seat = self.seat(module, call)
        self.layers[seat.stream, seat.layer] = self.layers.get((seat.stream, seat.layer), 0) + 1
        self.blocks[seat.stream] = seat.blocks
        place = Place(seat.layer, seat.path, (), (), seat.stream, way=way)
        return place, self.selection.has_layer(seat.layer, seat.blocks)

    def wait_for_asked(self, model: PreTrainedModel) -> None:
        """Raise `Enough` when all modules of asked layers have run and another is about to; not where nobody knows."""
        if self.selection.layers is None or model.config.model_type in CYCLING:
            return
        for module in attention_modules(model):
            seats = self.seats.of(module)
            if any(self.selection.has_layer(seat.layer, seat.blocks) for seat in seats):
                self.waited_for[module] = len(seats)

    @property
    def _enough(self) -> bool:
        """Whether every module that was waited for has run in all its places."""
        return all(self.modules.get(module, 0) >= places for module, places in self.waited_for.items())

    def spot(self, place: Place, index: int, batch: int) -> Place:
        """The place of one element of a batch of `batch`: its text, and the number of its call."""
        text = self.texts.of(index, batch)
        call = self.shown.get((place.name, text), 0)
        self.shown[place.name, text] = call + 1
        return replace(place, text=text, call=call)

    def attention(
        self,
        module: nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        scaling: float | None = None,
        softcap: float | None = None,
        position_bias: torch.Tensor | None = None,
        s_aux: torch.Tensor | None = None,
        sinks: torch.Tensor | None = None,
        **_: Any,
    ) -> tuple[torch.Tensor, None]:
        """One layer, called by transformers: query `[B, h, n, d]`, key `[B, g, m, d]`, value `[B, g, m, e]`.

        Returns the output `[B, n, h, e]`, and None for the weights, which nobody holds.
        """
        sink = sink_of(s_aux, sinks)
        moving = None
        if sink is not None and sink.numel() != query.shape[1]:  # a number per query and not only per head
            moving, sink = sink, None
        scale = scale_of(module, query, scaling)
        layer_rule = LayerRule(scale, softcap, position_bias, sink, attention_mask)
        output: torch.Tensor | None = None
        # What is computed here is no softmax or SDPA of the model's own: the watch must not see it.
        with torch.no_grad(), torch._C.DisableTorchFunction():
            place, asked = self.place(module, "registry")
            if moving is not None:
                output = self.fallback.sunk(place if asked else None, query, key, value, layer_rule, moving)
            elif asked:
                output = self.show(place, query, key, value, layer_rule)
            if output is None:
                output = layer_rule.plain(query, key, value)
        return output.to(query.dtype).transpose(1, 2).contiguous(), None

    def look(
        self, module: nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, layer_rule: LayerRule
    ) -> None:
        """Show a layer beside the model's own attention, which computes its output."""
        with torch.no_grad(), torch._C.DisableTorchFunction():
            place, asked = self.place(module, "beside")
            if asked:
                self.show(place, query, key, value, layer_rule)

    @staticmethod
    def rule(scale: float, mask: torch.Tensor | None) -> LayerRule:
        """The rule of a call that has no more than a scale and a mask."""
        return LayerRule(scale, None, None, None, mask)

    def show(
        self, place: Place, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, layer_rule: LayerRule
    ) -> torch.Tensor | None:
        """Visit each text of the batch; the layer's output `[B, h, n, e]` if every row of every text was walked."""
        batch, h, n, _ = query.shape
        heads = self.selection.pick_heads(h)
        groups = tuple(head // (h // key.shape[1]) for head in heads)
        whole = len(heads) == h and not self.beside
        spots = [self.spot(place, index, batch) for index in range(batch)]
        parts = [self._real_part(spot, index, query, key, layer_rule) for index, spot in enumerate(spots)]
        # Rows of a query next to each other, as the model goes on with them.
        output = query.new_empty((batch, n, h, value.shape[-1])).transpose(1, 2)
        complete = whole
        for index, (spot, part) in enumerate(zip(spots, parts, strict=True)):
            rows, keys = part.rows, part.keys
            q, k, v = query[index, :, rows], key[index, :, keys], value[index, :, keys]
            if len(heads) < h:
                q, k, v = q[list(heads)], k[list(groups)], v[list(groups)]
            call = AttentionCall(
                q,
                k,
                v,
                layer_rule.of_text(index, rows, keys, heads),
                replace(spot, heads=heads, groups=groups),
                part.queries,
                part.key_tokens,
                Output(output[index, :, rows]) if whole else None,
            )
            self.visit(call)
            for rest in (slice(0, rows.start), slice(rows.stop, n)) if whole else ():  # of padding, which goes on too
                output[index, :, rest] = layer_rule.banded(index, query[:, :, rest], key, value, rest)
            complete = complete and call.output is not None and call.output.complete
        return output if complete else None

    def _real_part(
        self, place: Place, index: int, query: torch.Tensor, key: torch.Tensor, layer_rule: LayerRule
    ) -> Part:
        """The query rows and keys of one element of the batch between its padding, labelled."""
        batch, n, m = query.shape[0], query.shape[2], key.shape[2]
        padding = layer_rule.padding()
        # What a model blocks of its own accord, such as patches of an image, is shown blocked and not cut away.
        of_texts = batch == self.texts.size and place.stream != "cross" and self.texts.padding
        if padding is None or padding.shape[-1] != m or not of_texts:
            return self.texts.part(place, batch, n, m)
        real = padding[index].nonzero()
        first, last = (int(real[0]), int(real[-1]) + 1) if len(real) else (0, m)
        # Queries are the last n of the m keys (n < m with a cache of past keys).
        rows = slice(max(first - (m - n), 0), max(last - (m - n), 0))
        return self.texts.labelled(place, batch, rows, slice(first, last))
