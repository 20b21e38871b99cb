"""Every attention call of a pass as stations: q and k before and after rotary positions, v, and the heads' output."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import nn

from attn_cli.kernel.definition.dense import scores as all_scores
from attn_cli.kernel.definition.heads import expand_groups
from attn_cli.kernel.definition.positions import Turning
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.definition.softmax import softmax
from attn_cli.kernel.stats.compiled import output_alone
from attn_cli.sources.huggingface.capture.batch_visitor import BatchVisitor
from attn_cli.sources.huggingface.capture.layer_output import output_of_layer
from attn_cli.sources.huggingface.capture.layer_rule import LayerRule, Products
from attn_cli.sources.huggingface.capture.ledger import Ledger
from attn_cli.sources.huggingface.capture.text_rule import rule_of_text
from attn_cli.sources.huggingface.rope.reader import RotationReader
from attn_cli.sources.huggingface.stations.own_code import LastProduct, own_attention

_MOST_SCORES = 2**21  # that are held at once
_FEWEST_ROWS = 16
_MOST_ROUNDED = 2048  # queries; of more, only what scores are made of is rounded
_MASKED = -1e30  # the score of a blocked key is below it
_ANGLE = 2.0**-23  # of an angle, that is rounded off

Rounding = Callable[[torch.Tensor], torch.Tensor]
Seen = Callable[[str, int, torch.Tensor], torch.Tensor]
"""Gets a kind, a layer, and heads `[h, n, d]`; returns those that the pass goes on with."""


class Attended(NamedTuple):
    """The q, k, v `[h, n, d]` and rule (scale, mask ...) with which a wrong implementation would attend.

    after  what it would then do to the output `[h, n, e]`, a function; None for nothing
    """

    qkv: Products
    rule: Rule
    after: Callable[[torch.Tensor], torch.Tensor] | None


class WrongAttention(Protocol):
    """Attention with one mistake made on purpose, such as a wrong scale, by one of three methods; the others give None.

    Each gets one text's q, k and v `[h, n, d]` in a layer, with the right rule (scale, mask ...) and rotary positions.
    """

    def products(self, layer: int, qkv: Products, rule: Rule, turning: Turning) -> Products | None:
        """q, k and v `[h, n, d]` with the mistake in them, such as other rotary positions; None if it isn't there."""

    def attended(self, layer: int, qkv: Products, rule: Rule, turning: Turning) -> Attended | None:
        """The wrong q, k, v and rule (scale, mask ...) to attend with; None where the mistake isn't in these."""

    def output(self, layer: int, qkv: Products, rule: Rule, turning: Turning) -> torch.Tensor | None:
        """The wrong output `[h, n, e]` of a mistake that can't be made by other q, k, v, scale or mask; else None."""


class StationAttention:
    """Computes the attention of one text, and shows its numbers at stations: places in the pass, such as q and k.

    streams   the stacks whose attention is shown
    seen      is called with each station's kind, layer and numbers `[h, n, d]`; gives the numbers to go on with
    rounding  rounds q, k, v, scores, weights and output; None for none
    wrong     mistakes that are made on purpose
    draw      the seed of rounding by chance; 0 for rounding to the nearest
    """

    def __init__(
        self,
        ledger: Ledger,
        rotations: RotationReader,
        streams: frozenset[str],
        seen: Seen,
        rounding: Rounding | None = None,
        wrong: Sequence[WrongAttention] = (),
        draw: int = 0,
    ) -> None:
        self.ledger, self.rotations, self.streams, self.seen = ledger, rotations, streams, seen
        self.visitor: BatchVisitor | None = None
        self.rounding, self.wrong, self.draw = rounding, wrong, draw
        self.unseen = False
        self.products: LastProduct | None = None
        self.note: Callable[[int, Products, Rule, Turning], None] | None = None

    def of_products(self, module: nn.Module, way: str, qkv: Products, rule: LayerRule) -> torch.Tensor | None:
        """The output `[1, h, n, e]` of one attention call, made of q, k and v as `seen` and the mistakes leave them."""
        place = self.ledger.record(module, way).place
        if place.stream not in self.streams or rule.sink_per_query is not None:
            return None if rule.sink_per_query is None else output_of_layer(rule, *qkv)
        query, key, value = qkv
        n, m = query.shape[2], key.shape[2]
        turning = self.rotations.turning(query, 0, slice(0, n), slice(0, m))()
        if self.rounding is not None:
            query, key, value = (self.rounding(x) for x in qkv)
            query, key = (_with_angle_noise(x, turning, self.draw) for x in (query, key))
        of_text = rule_of_text(rule, 0, slice(0, n), slice(0, m), range(query.shape[1]))
        scale = (_own_scale(module) or 1.0) if rule.scale == 1 else 1.0  # OPT's code gives it to queries
        own = of_text if scale == 1 else replace(of_text, scale=scale)
        if self.note is not None:
            self.note(place.layer, (query[0] / scale, key[0], value[0]), own, turning)
        q, k, v = self._products(place.layer, (query[0], key[0], value[0]), of_text, turning)
        output = self._wrong_output(place.layer, (q / scale, k, v), own, turning) if self.wrong else None
        if output is None and self.rounding is not None and n <= _MOST_ROUNDED:
            output = rounded_output(q, k, v, of_text, self.rounding)
        if output is None:
            output = output_of_layer(rule, q[None], k[None], v[None])[0]
        if self.rounding is not None:
            output = self.rounding(output)
        return self.seen("heads", place.layer, output.to(query.dtype))[None]

    def _wrong_output(self, layer: int, qkv: Products, rule: Rule, turning: Turning) -> torch.Tensor | None:
        """The output with all mistakes in it, each made of what those before it attend to; None without any."""
        afters, is_changed = [], False
        for wrong in self.wrong:
            made = wrong.attended(layer, qkv, rule, turning)
            if made is not None:
                qkv, rule, is_changed = made.qkv, made.rule, True
                afters += [] if made.after is None else [made.after]
        outputs = [wrong.output(layer, qkv, rule, turning) for wrong in self.wrong]
        output = next((one for one in outputs if one is not None), None)
        if output is None and is_changed:
            rounding = self.rounding if qkv[0].shape[1] <= _MOST_ROUNDED else None
            output = output_alone(*qkv, rule) if rounding is None else rounded_output(*qkv, rule, rounding)
        if output is not None:
            for after in afters:
                output = after(output)
        return output

    def _products(self, layer: int, qkv: Products, rule: Rule, turning: Turning) -> Products:
        """The products `[h, n, d]` that attention gets, after they were shown before and behind rotary positions."""
        q, k, v = qkv
        if not turning.unknown:
            q, k = (self._before_rotary(kind, layer, x, turning) for kind, x in (("q", q), ("k", k)))
        for wrong in self.wrong:
            q, k, v = wrong.products(layer, (q, k, v), rule, turning) or (q, k, v)
        if turning.first or turning.unknown:
            q, k = self.seen("q_rotated", layer, q), self.seen("k_rotated", layer, k)
        return q, k, self.seen("v", layer, v)

    def _before_rotary(self, kind: str, layer: int, x: torch.Tensor, turning: Turning) -> torch.Tensor:
        before = turned(x, turning, back=True)
        shown = self.seen(kind, layer, before)
        return x if shown is before else turned(shown, turning)

    def of_softmax(self, module: nn.Module, way: str, weights: torch.Tensor, scores: torch.Tensor | None) -> None:
        """Take in weights of a model's own code, whose q, k and output can't be shown; they may be changed in place."""
        layer = self.ledger.record(module, way).place.layer
        self.unseen = True
        own = own_attention(self.products.factors, scores, _own_scale(module)) if self.products is not None else None
        if own is not None:
            query, key, rule = own
            if self.note is not None:
                self.note(layer, (query, key, key), rule, Turning())
            is_changed = False
            for wrong in self.wrong:
                made = wrong.attended(layer, (query, key, key), rule, Turning())
                if made is not None:
                    (query, key, _), rule, is_changed = made.qkv, made.rule, True
            if is_changed:
                wrong_scores = _rounded_scores(all_scores(query, key, rule), self.rounding or (lambda x: x))
                weights.copy_(softmax(wrong_scores, rule.sink).reshape(weights.shape))
                return
        if self.rounding is not None and scores is not None and scores.shape == weights.shape:
            same = torch.softmax(scores.float(), -1)
            if torch.allclose(same, weights.float(), atol=1e-3):
                weights.copy_(self.rounding(torch.softmax(_rounded_scores(scores.float(), self.rounding), -1)))


def _own_scale(module: nn.Module) -> float | None:
    scale = getattr(module, "scaling", None)
    return scale if isinstance(scale, float) else None


def _with_angle_noise(x: torch.Tensor, turning: Turning, draw: int) -> torch.Tensor:
    """Queries or keys `[1, h, n, d]` turned by what float32 rounds off angles, which grow with the position."""
    if not turning.first or len(turning.cos) < 2:
        return x
    first, second = list(turning.first), list(turning.second)
    per_position = np.abs(np.arctan2(turning.sin[1], turning.cos[1]))  # [pairs]
    positions = np.arange(len(turning.cos) - x.shape[-2], len(turning.cos))
    random = np.random.default_rng([len(turning.cos), draw]).normal(size=(len(positions), len(first)))
    angle = torch.from_numpy(positions[:, None] * per_position * random * _ANGLE).to(x.dtype)
    turned = x.clone()
    turned[..., first] = x[..., first] - x[..., second] * angle
    turned[..., second] = x[..., second] + x[..., first] * angle
    return turned


def turned(x: torch.Tensor, turning: Turning, *, back: bool = False) -> torch.Tensor:
    """Queries or keys `[h, n, d]` rotated as the model does; with `back` as they were before that."""
    if not turning.first:
        return x
    first, second = list(turning.first), list(turning.second)
    start = len(turning.cos) - x.shape[-2]
    cos, sin = (torch.from_numpy(table[start:]).to(x.dtype) for table in (turning.cos, turning.sin))
    if back:
        square = cos * cos + sin * sin
        cos, sin = cos / square, -sin / square
    made = x.clone()
    made[..., first] = x[..., first] * cos - x[..., second] * sin
    made[..., second] = x[..., second] * cos + x[..., first] * sin
    return made


def rounded_output(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, rule: Rule, rounding: Rounding) -> torch.Tensor:
    """The output `[h, n, e]` of one text by q, k, v `[h, n, d]`, with scores and weights rounded by `rounding`."""
    outputs = []
    rows = max(_FEWEST_ROWS, _MOST_SCORES // (q.shape[0] * k.shape[1]))
    for start in range(0, q.shape[1], rows):
        stop = min(start + rows, q.shape[1])
        part = rule.of_rows(start, stop, k.shape[1])
        weights = rounding(softmax(_rounded_scores(all_scores(q[:, start:stop], k, part), rounding), part.sink))
        outputs.append(weights @ expand_groups(v, q.shape[0]).to(weights.dtype))
    return torch.cat(outputs, 1).to(q.dtype)


def _rounded_scores(x: torch.Tensor, rounding: Rounding) -> torch.Tensor:
    is_seen = x > _MASKED
    return torch.where(is_seen, rounding(torch.where(is_seen, x, 0.0)), x)
