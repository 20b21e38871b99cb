"""Every attention call of a pass as stations: q and k before and after rotary positions, v, and the heads' output."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import nn

from attn_cli.kernel.definition.dense import scores
from attn_cli.kernel.definition.heads import expand_groups
from attn_cli.kernel.definition.positions import Turning
from attn_cli.kernel.definition.rows_of_rule import rule_of_rows
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.definition.softmax import softmax
from attn_cli.sources.huggingface.capture.attend import LayerRule, Products
from attn_cli.sources.huggingface.capture.layer_output import output_of_layer, output_with_sink_per_query
from attn_cli.sources.huggingface.capture.ledger import Ledger
from attn_cli.sources.huggingface.capture.text_rule import rule_of_text
from attn_cli.sources.huggingface.rope.reader import RotationReader

_ROWS = 256  # whose scores are held at once
_MOST_ROUNDED = 2048  # queries; of more, scores and weights stay as they are
_ANGLE = 2.0**-23  # of an angle, that is rounded off

Rounding = Callable[[torch.Tensor], torch.Tensor]
Seen = Callable[[str, int, torch.Tensor], None]
"""Gets a kind, a layer, and heads `[h, n, d]`."""


class WrongAttention(Protocol):
    """Attention with a mistake in it."""

    def output(
        self, layer: int, module: nn.Module, qkv: Products, rule: Rule, turning: Turning
    ) -> tuple[Products, torch.Tensor] | None:
        """The products of one text `[h, n, d]` as the mistake makes them, and its output; None where it makes none."""


class StationAttention:
    """Shows the products and the output of every call of one text, and computes it, wrongly where told to.

    seen      is called for each station of the streams of the text
    rounding  of products and output; None for none
    wrong     mistakes in attention
    """

    def __init__(
        self,
        ledger: Ledger,
        rotations: RotationReader,
        streams: frozenset[str],
        seen: Seen,
        rounding: Rounding | None = None,
        wrong: Sequence[WrongAttention] = (),
    ) -> None:
        self.ledger, self.rotations, self.streams, self.seen = ledger, rotations, streams, seen
        self.rounding, self.wrong = rounding, wrong
        self.unseen = False
        self.rounds_weights = False
        self.note: Callable[[int, Products, Rule, Turning], None] | None = None

    def of_products(
        self,
        module: nn.Module,
        way: str,
        qkv: Products,
        rule: LayerRule,
        sink_per_query: torch.Tensor | None = None,
    ) -> torch.Tensor | None:
        """The output `[1, h, n, e]`."""
        place = self.ledger.record(module, way).place
        if place.stream not in self.streams or sink_per_query is not None:
            return None if sink_per_query is None else output_with_sink_per_query(rule, *qkv, sink_per_query)
        query, key, value = qkv
        n, m = query.shape[2], key.shape[2]
        turning = self.rotations.turning(query, 0, slice(0, n), slice(0, m))()
        if self.rounding is not None:
            query, key, value = (self.rounding(x) for x in qkv)
            query, key = (_with_angle_noise(x, turning) for x in (query, key))
        of_text = rule_of_text(rule, 0, slice(0, n), slice(0, m), range(query.shape[1]))
        if self.note is not None:
            self.note(place.layer, (query[0], key[0], value[0]), of_text, turning)
        output = None
        for wrong in self.wrong:
            made = wrong.output(place.layer, module, (query[0], key[0], value[0]), of_text, turning)
            if made is not None:
                (q, k, v), one = made
                query, key, value, output = q[None], k[None], v[None], one[None].to(query.dtype)
        if output is None and self.rounds_weights and n <= _MOST_ROUNDED:
            output = rounded_output(query[0], key[0], value[0], of_text, self.rounding or _same)[None]
        if output is None:
            output = output_of_layer(rule, query, key, value)
        if self.rounding is not None:
            output = self.rounding(output)
        if not turning.unknown:
            for kind, x in (("q", query), ("k", key)):
                self.seen(kind, place.layer, turned_back(x[0], turning))
        if turning.first or turning.unknown:
            self.seen("q_rotated", place.layer, query[0])
            self.seen("k_rotated", place.layer, key[0])
        self.seen("v", place.layer, value[0])
        self.seen("heads", place.layer, output[0])
        return output

    def of_softmax(self, module: nn.Module, way: str, weights: torch.Tensor, scores: torch.Tensor | None) -> None:
        """Weights of the model's own code have no products: the layer's vectors alone are stations."""
        self.ledger.record(module, way)
        self.unseen = True


def _with_angle_noise(x: torch.Tensor, turning: Turning) -> torch.Tensor:
    """Queries or keys `[1, h, n, d]` turned by what float32 rounds off angles, which grow with the position."""
    if not turning.first or len(turning.cos) < 2:
        return x
    first, second = list(turning.first), list(turning.second)
    per_position = np.abs(np.arctan2(turning.sin[1], turning.cos[1]))  # [pairs]
    positions = np.arange(len(turning.cos) - x.shape[-2], len(turning.cos))
    random = np.random.default_rng(len(turning.cos)).normal(size=(len(positions), len(first)))
    angle = torch.from_numpy(positions[:, None] * per_position * random * _ANGLE).to(x.dtype)
    turned = x.clone()
    turned[..., first] = x[..., first] - x[..., second] * angle
    turned[..., second] = x[..., second] + x[..., first] * angle
    return turned


def turned_back(x: torch.Tensor, turning: Turning) -> torch.Tensor:
    """Queries or keys `[h, n, d]` as they were before their rotation."""
    if not turning.first:
        return x
    first, second = list(turning.first), list(turning.second)
    start = len(turning.cos) - x.shape[-2]
    cos, sin = (torch.from_numpy(table[start:]).to(x.dtype) for table in (turning.cos, turning.sin))
    square = cos * cos + sin * sin
    back = x.clone()
    back[..., first] = (x[..., first] * cos + x[..., second] * sin) / square
    back[..., second] = (x[..., second] * cos - x[..., first] * sin) / square
    return back


def rounded_output(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, rule: Rule, rounding: Rounding) -> torch.Tensor:
    """The output `[h, n, e]` of one text with scores and weights rounded, some rows at a time."""
    outputs = []
    for start in range(0, q.shape[1], _ROWS):
        stop = min(start + _ROWS, q.shape[1])
        part = rule_of_rows(rule, start, stop, k.shape[1])
        all_scores = rounding(scores(q[:, start:stop], k, part))
        weights = rounding(softmax(all_scores, part.sink))
        outputs.append(weights @ expand_groups(v, q.shape[0]).to(weights.dtype))
    return torch.cat(outputs, 1).to(q.dtype)


def _same(x: torch.Tensor) -> torch.Tensor:
    return x
