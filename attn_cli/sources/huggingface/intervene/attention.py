"""The attention of a batch of interventions: outputs of ablated heads are 0, hidden keys are masked."""

from collections.abc import Sequence

import torch
from torch import nn

from attn_cli.errors import LoadError
from attn_cli.kernel.bands.bands import bands
from attn_cli.kernel.bands.plan import plan_of
from attn_cli.kernel.definition.mask import Mask, all_of
from attn_cli.kernel.definition.rule import Rule
from attn_cli.sources.huggingface.anatomy.head_counts import groups_of, heads_of
from attn_cli.sources.huggingface.capture.calls import ObservedAttention, Visit
from attn_cli.sources.huggingface.capture.layer_rule import LayerRule, Products, output_of_layer
from attn_cli.sources.huggingface.capture.ledger import Ledger, LedgerEntry
from attn_cli.sources.huggingface.capture.own_code.seen_weights import as_matrices
from attn_cli.sources.huggingface.intervene.baseline_run import BaselineRun, BlockCalls, CachedAttention, CallNumber
from attn_cli.sources.huggingface.intervene.batch import ChangeBatch, GatedRows

MANY_ROWS = 48  # from which on the rows of one variant keep a matrix product busy
_WHOLE = 2**19  # cells of a variant; more are quicker in bands, which leave out what no row sees


class InterveningAttention(ObservedAttention):
    """Computes every layer's attention in the baseline, whose calls it collects, or in a batch of S changed runs."""

    def __init__(
        self,
        ledger: Ledger,
        baseline: BaselineRun,
        calls: BlockCalls,
        batch: ChangeBatch | None = None,
        visit: Visit | None = None,
    ) -> None:
        super().__init__(ledger, visit)
        self.baseline, self.calls, self.batch = baseline, calls, batch

    def of_products(self, module: nn.Module, way: str, qkv: Products, rule: LayerRule) -> torch.Tensor:
        """The output `[S, h, n, e]` of a layer, of which each of S interventions ablates heads or hides keys."""
        recorded = self.ledger.record(module, way)
        place = recorded.place
        if self.ledger.dropouts.get(module):
            raise LoadError(f"layer {place.layer} ({place.name}) drops weights at random", "call eval() on the model")
        if way == "sdpa" and qkv[0].shape[1] == 1 and qkv[0].shape[0] != (1 if self.batch is None else self.batch.size):
            raise unreachable(place.layer, place.name)  # heads and texts share an axis
        number = self.calls.next_attention()
        if self.batch is None:
            output = self._shown(recorded, qkv, rule)
            return self._baseline_output(number, recorded, qkv, rule, output)
        # by its number, since the ledger counts no calls in blocks that were skipped
        layer, stream = self.baseline.where(number)
        query, key, _ = qkv
        past = self.baseline.past.get(number) if self.batch.first else None
        (_, h, n, _), m = query.shape, key.shape[2] if past is None else past.keys.shape[1]
        at = self.baseline.layers[layer, stream]
        if isinstance(self.batch, GatedRows) and past is not None:
            with torch.enable_grad():
                return self.batch.output(at, past, qkv, self.baseline.allowed(number, self.batch.first))
        hidden = self.batch.masks(at, n, m)
        if hidden is not None and rule.sink_per_query is not None:
            raise unreachable(layer, place.name)
        if past is None:
            output = _output(qkv, rule, hidden)
        elif n * m > _WHOLE:
            output = output_in_bands(past, qkv, hidden)
        else:
            output = output_side_by_side(past, qkv, self.baseline.allowed(number, self.batch.first), hidden)
        ablated = self.batch.ablated(layer, stream, h, n)
        if ablated is None:
            return output
        ablated = ablated.to(query.device)[..., None]  # [S, h, n, 1]
        mean = self.baseline.means.get(number)
        if mean is None:
            return output.masked_fill(ablated, 0.0)
        return torch.where(ablated, mean[:, :, self.batch.first :].to(output.dtype), output)

    def _baseline_output(
        self,
        number: CallNumber,
        recorded: LedgerEntry,
        qkv: Products,
        rule: LayerRule,
        output: torch.Tensor | None,
    ) -> torch.Tensor:
        query, key, value = qkv
        h, g = query.shape[1], key.shape[1]
        groups = [head // (h // g) for head in range(h)]
        self.baseline.add(number, recorded.place, recorded.blocks, groups)
        if rule.sink_per_query is None:
            self.baseline.add_past(number, key, value, rule, h)
        else:
            self.baseline.no_cache_reason = "a sink for every query"
        output = _output(qkv, rule) if output is None else output
        self.baseline.add_output(number, output)
        return output

    def _take_weights(
        self,
        recorded: LedgerEntry,
        module: nn.Module,
        weights: torch.Tensor,
        scores: torch.Tensor | None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Change the weights in place, in their module's layout: 0 in ablated heads, softmax without hidden keys."""
        place, size = recorded.place, self.ledger.labels.size
        batch, baseline, number = self.batch, self.baseline, self.calls.next_attention()
        matrices = as_matrices(weights, module, size)
        h, n, m = matrices.shape[-3:]
        if batch is None:
            baseline.add(number, place, recorded.blocks, groups_of(module, h))
            baseline.add_output(number, None)
            baseline.no_cache_reason = "attention in the model's own code"
            super()._take_weights(recorded, module, weights, scores, dtype)
            return
        layer, stream = baseline.where(number)
        ablated, cells = batch.ablated(layer, stream, h, n), batch.masks(baseline.layers[layer, stream], n, m)
        hidden = None if cells is None else dense_cells(cells, n, m, weights.device)
        if ablated is None and hidden is None:
            return
        is_view = matrices.untyped_storage().data_ptr() == weights.untyped_storage().data_ptr()
        if place.way != "softmax" or not is_view or matrices.shape[0] != batch.size or h != (heads_of(module) or h):
            raise unreachable(layer, place.name)
        if hidden is not None:
            if scores is None:
                raise unreachable(layer, place.name)
            lowered = as_matrices(scores, module, size).float()
            matrices.copy_(lowered.masked_fill(hidden, -torch.inf).softmax(-1))
        if ablated is not None:
            matrices.masked_fill_(ablated.to(weights.device)[..., None], 0.0)


def unreachable(layer: int, path: str) -> LoadError:
    """The error for attention at `path` whose weights are seen, but whose heads can't be ablated nor tokens masked."""
    return LoadError(
        f"layer {layer} ({path}) computes its attention where heads can't be ablated nor tokens masked",
        "its weights can be seen: attn top, attn heads",
    )


def _output(
    qkv: Products,
    rule: LayerRule,
    hidden: Sequence[Mask | None] | None = None,
) -> torch.Tensor:
    query, key, value = qkv
    (s, h, n, _), m = query.shape, key.shape[2]
    if hidden is None:
        return output_of_layer(rule, *qkv)
    rules = [rule.of_text(text, slice(0, n), slice(0, m), range(h)) for text in range(s)]
    texts = zip(query, key, value, rules, hidden, strict=True)
    return torch.stack([walked_output(*of_text) for of_text in texts])


_CACHED = 2**18  # scores that are computed at a time: 1 MiB
_ON_GPU = 2**26


def output_side_by_side(
    past: CachedAttention, own: Products, allowed: torch.Tensor, hidden: Sequence[Mask | None] | None
) -> torch.Tensor:
    """The output `[S, h, r, e]` of S runs' last r rows (`own`), which see the allowed keys, `[r, m]` or `[h, r, m]`."""
    query, key, value = (x.float() for x in own)
    (s, h, r, _), g, m = query.shape, key.shape[1], past.keys.shape[1]
    w = h // g  # query heads share a key head
    rows = _Rows(past.rule_from(m - r), m - r, allowed)
    query = query * rows.rule.scale
    output = torch.empty((s, h, r, value.shape[-1]), device=query.device)
    count = max(1, (_CACHED if query.device.type == "cpu" else _ON_GPU) // (w * r * m))
    for start in range(0, s, count):
        some = slice(start, start + count)
        cells = None if hidden is None else [rows.hidden(x) for x in hidden[some]]
        for group in range(g):
            heads = slice(group * w, group * w + w)
            kept, these = (past.keys[group].float(), past.values[group].float()), (key[some, group], value[some, group])
            output[some, heads] = rows.output(query[some, heads], kept, these, heads, cells)
    return output


class _Rows:
    """The last rows of a text, as many as `allowed` `[r, m]` or `[h, r, m]` has, from `first` on."""

    def __init__(self, rule: Rule, first: int, allowed: torch.Tensor) -> None:
        self.rule, self.first, self.blocked = rule, first, ~allowed
        self.sees_itself = bool(allowed[..., first:].diagonal(dim1=-2, dim2=-1).all())

    def hidden(self, cells: Mask | None) -> torch.Tensor:
        if cells is None:
            return self.blocked
        r, m = self.blocked.shape[-2:]
        places = torch.arange(m, device=self.blocked.device)
        return self.blocked | ~cells.allowed(places[:r, None], places[None])

    def output(
        self,
        q: torch.Tensor,
        past: tuple[torch.Tensor, torch.Tensor],
        own: tuple[torch.Tensor, torch.Tensor],
        heads: slice,
        hidden: Sequence[torch.Tensor] | None,
    ) -> torch.Tensor:
        """The output `[c, w, r, e]` of c variants and the w heads that share a key head; q `[c, w, r, d]`, scaled."""
        (c, w, r, d), first = q.shape, self.first
        scores = torch.empty((c, w, r, first + r), device=q.device)
        q = q.reshape(c, w * r, d)
        torch.mm(q.reshape(c * w * r, d), past[0][:first].T, out=scores.view(c * w * r, -1)[:, :first])
        scores.view(c, w * r, -1)[..., first:] = q @ own[0].mT  # [c, w*r, d] @ [c, d, r]
        scores = self.rule.capped(scores)
        bias = self.rule.bias_of(0, r, 0, first + r)
        if bias is not None:
            scores += _of_heads(bias, heads)
        weights = self._weights(scores, heads, hidden).view(c, w * r, -1)
        before = weights.view(c * w * r, -1)[:, :first] @ past[1][:first]  # [c*w*r, first] @ [first, e]
        return (before.view(c, w * r, -1) + weights[..., first:] @ own[1]).view(c, w, r, -1)

    def _weights(self, scores: torch.Tensor, heads: slice, hidden: Sequence[torch.Tensor] | None) -> torch.Tensor:
        """The softmax of scores `[c, w, r, m]`, which are overwritten; rows that see nothing become 0."""
        if hidden is None:
            scores.masked_fill_(_of_heads(self.blocked, heads), -torch.inf)
        else:
            for variant, cells in zip(scores, hidden, strict=True):
                variant.masked_fill_(_of_heads(cells, heads), -torch.inf)
        if self.rule.sink is None:
            weights = scores.softmax(-1)
        else:
            sink = self.rule.sink[heads, None, None].expand(*scores.shape[:-1], 1)
            weights = torch.cat([scores, sink], dim=-1).softmax(-1)[..., :-1].contiguous()
        return weights if self.sees_itself else weights.nan_to_num_(0.0)


def _of_heads(numbers: torch.Tensor, heads: slice) -> torch.Tensor:
    return numbers[heads] if numbers.ndim == 3 and numbers.shape[0] > 1 else numbers


def output_in_bands(
    past: CachedAttention,
    own: Products,
    hidden: Sequence[Mask | None] | None,
) -> torch.Tensor:
    """The output `[S, h, r, e]` of the last r rows of a layer in S variants of a run, one variant after the other."""
    first = past.keys.shape[1] - own[0].shape[2]
    rule = past.rule_from(first)
    outputs = []
    for at, (query, key, value) in enumerate(zip(*own, strict=True)):
        k = torch.cat([past.keys[:, :first].to(key.dtype), key], dim=1)  # [g, m, d]
        v = torch.cat([past.values[:, :first].to(value.dtype), value], dim=1)
        mask = None if hidden is None else hidden[at]
        outputs.append(walked_output(query, k, v, rule, mask))
    return torch.stack(outputs)


def walked_output(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    rule: Rule,
    hidden: Mask | None,
) -> torch.Tensor:
    """The output `[h, n, e]` of attention, some rows at a time; q `[h, n, d]`, k `[g, m, d]`, v `[g, m, e]`."""
    if hidden is not None:
        mask = all_of(rule.mask, hidden)
        rule = Rule(rule.scale, rule.softcap, rule.bias, mask, rule.sink, rule.softmax)
    return torch.cat([band.output for band in bands(q, k, v, rule, plan_of(q, k, rule))], dim=1)


def dense_cells(hidden: Sequence[Mask | None], n: int, m: int, device: torch.device) -> torch.Tensor:
    """The cells of n rows and m keys that S masks hide: booleans `[S, h or 1, n, m]`, False for a mask that is None."""
    i, j = torch.arange(n, device=device)[:, None], torch.arange(m, device=device)[None]
    none = torch.zeros((1, n, m), dtype=torch.bool, device=device)
    cells = [none if own is None else ~own.allowed(i, j).reshape(-1, n, m) for own in hidden]
    heads = max(x.shape[0] for x in cells)
    return torch.stack([x.expand(heads, n, m) for x in cells])
