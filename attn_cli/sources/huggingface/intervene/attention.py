"""The attention of a batch of interventions: outputs of ablated heads are 0, hidden keys are masked."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import nn

from attn_cli.errors import LoadError
from attn_cli.kernel.definition.mask import Mask
from attn_cli.sources.huggingface.anatomy.head_counts import groups_of, heads_of
from attn_cli.sources.huggingface.capture.calls import ObservedAttention, Visit
from attn_cli.sources.huggingface.capture.layer_rule import LayerRule, Products, output_of_layer
from attn_cli.sources.huggingface.capture.lazy_mask import LazyMask
from attn_cli.sources.huggingface.capture.ledger import Ledger, LedgerEntry
from attn_cli.sources.huggingface.capture.own_code.seen_weights import as_matrices
from attn_cli.sources.huggingface.intervene.baseline_run import BaselineRun, CachedAttention
from attn_cli.sources.huggingface.intervene.batch import ChangeBatch
from attn_cli.sources.huggingface.intervene.block_calls import BlockCalls, CallNumber
from attn_cli.sources.huggingface.intervene.differentiated import GatedRows
from attn_cli.sources.huggingface.intervene.rows_from_cache import (
    dense_cells,
    output_in_bands,
    output_side_by_side,
    walked_output,
)

MANY_ROWS = 48  # from which on the rows of one variant keep a matrix product busy
_WHOLE = 2**19  # cells of a variant; more are quicker in bands, which leave out what no row sees


class InterveningAttention(ObservedAttention):
    """Computes every layer's attention, in the baseline (no intervention) or in a batch of S runs with one each.

    baseline  the calls of the baseline: it collects them, and runs with interventions read them
    batch     the interventions of this run; None for the baseline
    visit     gets the calls of the baseline that the ledger selects; None where nobody looks
    """

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
        output = _output(qkv, rule, hidden) if past is None else self._output_of_rows(number, past, qkv, hidden)
        ablated = self.batch.ablated(layer, stream, h, n)
        if ablated is None:
            return output
        ablated = ablated.to(query.device)[..., None]  # [S, h, n, 1]
        mean = self.baseline.mean_of(number)
        if mean is None:
            return output.masked_fill(ablated, 0.0)
        return torch.where(ablated, mean[:, :, self.batch.first :].to(output.dtype), output)

    def _output_of_rows(
        self,
        number: CallNumber,
        past: CachedAttention,
        qkv: Products,
        hidden: Sequence[Mask | None] | None,
    ) -> torch.Tensor:
        assert self.batch is not None
        if qkv[0].shape[2] * past.keys.shape[1] > _WHOLE:
            return output_in_bands(past, qkv, hidden)
        return output_side_by_side(past, qkv, self.baseline.allowed(number, self.batch.first), hidden)

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
    if rule.sink_per_query is not None and hidden is not None:
        rule, hidden = _with_hidden(rule, dense_cells(hidden, n, m, query.device)), None
    if hidden is None:
        return output_of_layer(rule, *qkv)
    rules = [rule.of_text(text, slice(0, n), slice(0, m), range(h)) for text in range(s)]
    texts = zip(query, key, value, rules, hidden, strict=True)
    return torch.stack([walked_output(*of_text) for of_text in texts])


def _with_hidden(rule: LayerRule, hidden: torch.Tensor) -> LayerRule:
    mask = rule.mask.materialized() if isinstance(rule.mask, LazyMask) else rule.mask
    if mask is None:
        mask = ~hidden
    elif mask.dtype == torch.bool:
        mask = mask & ~hidden
    else:
        mask = torch.where(hidden, torch.finfo(mask.dtype).min, mask)
    return replace(rule, mask=mask)
