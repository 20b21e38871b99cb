"""The attention of a batch of interventions: outputs of ablated heads are 0, hidden keys are masked."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from attn_cli.call import Place
from attn_cli.errors import LoadError
from attn_cli.sources.huggingface.anatomy.head_counts import groups_of, heads_of
from attn_cli.sources.huggingface.capture.batch_visitor import BatchVisitor
from attn_cli.sources.huggingface.capture.layer_rule import LayerRule, rule_of_layer
from attn_cli.sources.huggingface.capture.lazy_mask import LazyMask
from attn_cli.sources.huggingface.capture.ledger import Ledger
from attn_cli.sources.huggingface.capture.own_code.softmax_layouts import as_matrices
from attn_cli.sources.huggingface.compat import hidden_from_function_modes
from attn_cli.sources.huggingface.intervene.baseline_run import BaselineRun, CachedAttention
from attn_cli.sources.huggingface.intervene.batch import InterventionBatch
from attn_cli.sources.huggingface.intervene.block_calls import BlockCalls, CallNumber
from attn_cli.sources.huggingface.intervene.hidden_cells import HiddenCells
from attn_cli.sources.huggingface.intervene.rows_from_cache import (
    Products,
    dense_cells,
    output_in_bands,
    output_side_by_side,
    walked_output,
)

MANY_ROWS = 48  # from which on the rows of one variant keep a matrix product busy
_WHOLE = 2**19  # cells of a variant; more are quicker in bands, which leave out what no row sees


class InterveningAttention:
    """Computes the attention of every layer that uses the registry, in the baseline or in that of a batch.

    baseline  the calls of the baseline: it collects them, runs with interventions read from them
    calls     numbers the calls of this run
    batch     the interventions of this run; None for the baseline
    visitor   of the calls of the baseline that the ledger selects; None if not requested
    """

    def __init__(
        self,
        ledger: Ledger,
        baseline: BaselineRun,
        calls: BlockCalls,
        batch: InterventionBatch | None = None,
        visitor: BatchVisitor | None = None,
    ) -> None:
        self.ledger, self.baseline, self.calls, self.batch, self.visitor = ledger, baseline, calls, batch, visitor

    def compute(
        self,
        module: nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        scaling: float | None = None,
        **options: Any,
    ) -> tuple[torch.Tensor, None]:
        """One layer, in the registry's signature: query `[S, h, n, d]`, key `[S, g, m, d]`, value `[S, g, m, e]`.

        Returns the output `[S, n, h, e]`, and None for the weights, which are never held whole.
        """
        rule, sink_per_query = rule_of_layer(module, query, key, attention_mask, scaling, options)
        with torch.no_grad(), hidden_from_function_modes():
            output = self.output(module, "registry", (query, key, value), rule, sink_per_query)
        return output.to(query.dtype).transpose(1, 2).contiguous(), None

    def output(
        self,
        module: nn.Module,
        way: str,
        qkv: Products,
        rule: LayerRule,
        sink_per_query: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The output `[S, h, n, e]` of a layer that ran in this way of capture."""
        place, is_selected = self.ledger.record(module, way)
        number = self.calls.next_attention()
        if self.batch is None:
            output = self._visited(place, qkv, rule, sink_per_query) if is_selected else None
            return self._baseline_output(number, place, qkv, rule, sink_per_query, output)
        # by its number, since the ledger counts no calls in blocks that were skipped
        layer, stream = self.baseline.where(number)
        query, key, _ = qkv
        past = self.baseline.past.get(number) if self.batch.first else None
        (_, h, n, _), m = query.shape, key.shape[2] if past is None else past.keys.shape[1]
        hidden = self.batch.hidden(self.baseline.layers[layer, stream], n, m)
        if past is None:
            output = _output(qkv, rule, sink_per_query, hidden)
        else:
            output = self._output_of_rows(number, past, qkv, hidden)
        ablated = self.batch.ablated(layer, stream, h, n)
        if ablated is None:
            return output
        ablated = ablated.to(query.device)[..., None]  # [S, h, n, 1]
        mean = self.baseline.mean_of(number)
        if mean is None:
            return output.masked_fill(ablated, 0.0)
        return torch.where(ablated, mean[:, :, self.batch.first :].to(output.dtype), output)

    def _output_of_rows(
        self, number: CallNumber, past: CachedAttention, qkv: Products, hidden: Sequence[HiddenCells | None] | None
    ) -> torch.Tensor:
        """The output of a text's last rows, with keys and values of the baseline before them."""
        assert self.batch is not None
        if qkv[0].shape[2] * past.keys.shape[1] > _WHOLE:
            return output_in_bands(past, qkv, hidden)
        return output_side_by_side(past, qkv, self.baseline.allowed(number, self.batch.first), hidden)

    def _baseline_output(
        self,
        number: CallNumber,
        place: Place,
        qkv: Products,
        rule: LayerRule,
        sink_per_query: torch.Tensor | None,
        output: torch.Tensor | None,
    ) -> torch.Tensor:
        """The output of a call of the baseline, computed here if `output` is None; keeps what later runs need of it."""
        query, key, value = qkv
        h, g = query.shape[1], key.shape[1]
        self.baseline.add(number, place, self.ledger.blocks[place.stream], [head // (h // g) for head in range(h)])
        if sink_per_query is None:
            self.baseline.add_past(number, key, value, rule, h)
        else:
            self.baseline.no_cache_reason = "a sink for every query"
        output = _output(qkv, rule, sink_per_query) if output is None else output
        self.baseline.add_output(number, output)
        return output

    def _visited(
        self, place: Place, qkv: Products, rule: LayerRule, sink_per_query: torch.Tensor | None
    ) -> torch.Tensor | None:
        """Show a call of the baseline to the visitor; its output if that was computed meanwhile."""
        if self.visitor is None:
            return None
        if sink_per_query is not None:
            self.baseline.visited = False
            return None
        return self.visitor.visit_products(place, *qkv, rule)


class InterveningOwnCode:
    """The same for softmaxes and SDPA calls in a model's own code, outside the registry."""

    def __init__(self, attention: InterveningAttention) -> None:
        self.attention, self.ledger = attention, attention.ledger

    @torch.no_grad()
    def visit_softmax(self, module: nn.Module, way: str, weights: torch.Tensor, scores: torch.Tensor | None) -> None:
        """Change the weights in place, in the layout of the module that made them: an ablated head has weights of 0.

        Raises LoadError for a layout, or a way of computing them, in which changed weights have no effect.
        """
        place, _ = self.ledger.record(module, way)
        batch, baseline = self.attention.batch, self.attention.baseline
        number = self.attention.calls.next_attention()
        size = self.ledger.labels.size
        matrices = as_matrices(weights, module, size, self.ledger.labels.length, 0.0)
        h, n, m = matrices.shape[-3:]
        if batch is None:
            baseline.add(number, place, self.ledger.blocks[place.stream], groups_of(module, h))
            baseline.add_output(number, None)
            baseline.no_cache_reason = "attention in the model's own code"
            baseline.visited = False
            return
        layer, stream = baseline.where(number)
        ablated, cells = batch.ablated(layer, stream, h, n), batch.hidden(baseline.layers[layer, stream], n, m)
        hidden = None if cells is None else dense_cells(cells, n, m, weights.device)
        if ablated is None and hidden is None:
            return
        is_view = matrices.untyped_storage().data_ptr() == weights.untyped_storage().data_ptr()
        if way != "softmax" or not is_view or matrices.shape[0] != batch.size or h != (heads_of(module) or h):
            raise unreachable(layer, place.name)
        if hidden is not None:
            if scores is None:
                raise unreachable(layer, place.name)
            lowered = as_matrices(scores, module, size, self.ledger.labels.length, 0.0).float()
            matrices.copy_(lowered.masked_fill(hidden, -torch.inf).softmax(-1))
        if ablated is not None:
            matrices.masked_fill_(ablated.to(weights.device)[..., None], 0.0)

    @torch.no_grad()
    def visit_sdpa(self, module: nn.Module, arguments: dict[str, Any]) -> torch.Tensor | None:
        """The output of a call of torch's SDPA, given by argument names.

        Raises LoadError for a call that has no axis of heads.
        """
        query, key, value = (arguments[name] for name in ("query", "key", "value"))
        if query.ndim != 4:
            place, _ = self.ledger.record(module, "sdpa")
            raise unreachable(place.layer, place.name)
        mask, scale = arguments.get("attn_mask"), arguments.get("scale")
        if arguments.get("is_causal"):
            mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device).tril()[None, None]
        rule = LayerRule(float(scale) if scale is not None else query.shape[-1] ** -0.5, mask=mask)
        return self.attention.output(module, "sdpa", (query, key, value), rule).to(query.dtype)


def unreachable(layer: int, path: str) -> LoadError:
    """The error for attention that can be looked at, but not intervened in."""
    return LoadError(
        f"layer {layer} ({path}) computes its attention where heads can't be ablated nor tokens masked",
        "its weights can be seen: attn top, attn heads",
    )


def _output(
    qkv: Products,
    rule: LayerRule,
    sink_per_query: torch.Tensor | None,
    hidden: Sequence[HiddenCells | None] | None = None,
) -> torch.Tensor:
    """The output `[S, h, n, e]` of whole calls, with cells hidden in each of the S texts."""
    query, key, value = qkv
    (_, h, n, _), m = query.shape, key.shape[2]
    if sink_per_query is not None:
        if hidden is not None:
            rule = _with_hidden(rule, dense_cells(hidden, n, m, query.device))
        return rule.output_with_sink_per_query(*qkv, sink_per_query)
    if hidden is None:
        return rule.output(*qkv)
    rules = [rule.of_text(text, slice(0, n), slice(0, m), range(h)) for text in range(query.shape[0])]
    return torch.stack([walked_output(*of_text) for of_text in zip(query, key, value, rules, hidden, strict=True)])


def _with_hidden(rule: LayerRule, hidden: torch.Tensor) -> LayerRule:
    """The rule with the cells of `hidden` `[S, h or 1, n, m]` masked beside those that it masks itself."""
    mask = rule.mask.materialized() if isinstance(rule.mask, LazyMask) else rule.mask
    if mask is None:
        mask = ~hidden
    elif mask.dtype == torch.bool:
        mask = mask & ~hidden
    else:
        mask = torch.where(hidden, torch.finfo(mask.dtype).min, mask)
    return LayerRule(rule.scale, rule.softcap, rule.bias, rule.sink, mask)
