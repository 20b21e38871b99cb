"""The attention of a batch of interventions: outputs of ablated heads are 0, hidden keys are masked."""

from dataclasses import replace

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from attn_cli.call import Visit
from attn_cli.errors import LoadError
from attn_cli.kernel.cpu.walk import output_alone
from attn_cli.kernel.definition.mask import all_of
from attn_cli.sources.huggingface.anatomy.configuration import groups_of, heads_of
from attn_cli.sources.huggingface.capture.calls import ObservedAttention
from attn_cli.sources.huggingface.capture.layer_rule import LayerRule, Products, output_of_layer
from attn_cli.sources.huggingface.capture.ledger import Ledger, LedgerEntry
from attn_cli.sources.huggingface.capture.seen_weights import SeenWeights, as_matrices
from attn_cli.sources.huggingface.intervene.baseline_run import BaselineRun, BlockCalls, CachedAttention
from attn_cli.sources.huggingface.intervene.batch import ChangeBatch, GatedRows, HiddenCells

_WHOLE = 2**17  # cells of a variant; more are quicker in bands, which leave out what no row sees
_WHOLE_ON_GPU = 2**19


class InterveningAttention(ObservedAttention):
    """Computes every layer's attention in the baseline, whose calls it collects, or in a batch of S changed runs."""

    def __init__(
        self, ledger: Ledger, baseline: BaselineRun, calls: BlockCalls, batch: ChangeBatch | None, visit: Visit | None
    ) -> None:
        super().__init__(ledger, visit)
        self.baseline, self.calls, self.batch = baseline, calls, batch

    def of_products(self, module: nn.Module, way: str, qkv: Products, rule: LayerRule) -> torch.Tensor:
        """The output `[S, h, n, e]` of a layer, of which each of S interventions ablates heads or hides keys."""
        recorded = self.ledger.record(module, way)
        place, (query, key, value) = recorded.place, qkv
        (s, h, n, _), g = query.shape, key.shape[1]
        if self.ledger.dropouts.get(module):
            raise LoadError(f"layer {place.layer} ({place.name}) drops weights at random", "call eval() on the model")
        if way == "sdpa" and h == 1 and s != (1 if self.batch is None else self.batch.size):
            raise _unreachable(place.layer, place.name)  # heads and texts share an axis
        number = self.calls.next_attention()
        if self.batch is None:
            output = self._show_products(recorded, qkv, rule)
            output = output_of_layer(rule, *qkv) if output is None else output
            groups = [head // (h // g) for head in range(h)]
            self.baseline.add(number, recorded, groups, output, CachedAttention(key[0], value[0], rule, h))
            return output
        # by its number, since the ledger counts no calls in blocks that were skipped
        at, first = self.baseline.layers[number], self.batch.first
        past = self.baseline.past.get(number) if first else None
        if past is not None and isinstance(self.batch, GatedRows):
            given = past, qkv, self.baseline.allowed(number, first), None
            with torch.enable_grad():  # weights are not held until derivatives are taken, but computed again
                output = checkpoint(_output_of_rows, *given, use_reentrant=False, preserve_rng_state=False)
                return self.batch.gated(at, output)
        m = key.shape[2] if past is None else past.keys.shape[1]
        hidden = self.batch.hidden(at, n, m)
        if hidden is not None and rule.sink_per_query is not None:
            raise _unreachable(at.layer, place.name)
        if past is not None and n * m <= (_WHOLE if query.device.type == "cpu" else _WHOLE_ON_GPU):
            cells = None if hidden is None else hidden.dense(query.device)
            output = _output_of_rows(past, qkv, self.baseline.allowed(number, first), cells)
        elif past is None and hidden is None:
            output = output_of_layer(rule, *qkv)
        else:
            output = _walked_output(past, qkv, rule, hidden)
        ablated = self.batch.ablated(at, h, n)
        if ablated is None:
            return output
        ablated = ablated.to(query.device)[..., None]  # [S, h, n, 1]
        if number not in self.baseline.means:
            return output.masked_fill(ablated, 0.0)
        return torch.where(ablated, self.baseline.means[number][:, :, first:].to(output.dtype), output)

    def _take_weights(self, recorded: LedgerEntry, module: nn.Module, seen: SeenWeights) -> None:
        """Change the weights in place, in their module's layout: 0 in ablated heads, softmax without hidden keys."""
        weights, scores, _ = seen
        size, batch, number = self.ledger.labels.size, self.batch, self.calls.next_attention()
        matrices = as_matrices(weights, module, size)
        h, n, m = matrices.shape[-3:]
        if batch is None:
            self.baseline.add(number, recorded, groups_of(module, h))
            super()._take_weights(recorded, module, seen)
            return
        at = self.baseline.layers[number]
        ablated, hidden = batch.ablated(at, h, n), batch.hidden(at, n, m)
        if ablated is None and hidden is None:
            return
        is_view = matrices.untyped_storage().data_ptr() == weights.untyped_storage().data_ptr()
        is_clear = is_view and matrices.shape[0] == batch.size and h == (heads_of(module) or h)
        if recorded.place.way != "softmax" or not is_clear or (hidden is not None and scores is None):
            raise _unreachable(at.layer, recorded.place.name)
        if hidden is not None and scores is not None:
            lowered = as_matrices(scores, module, size).float()
            matrices.copy_(lowered.masked_fill(hidden.dense(weights.device), -torch.inf).softmax(-1))
        if ablated is not None:
            matrices.masked_fill_(ablated.to(weights.device)[..., None], 0.0)


def _unreachable(layer: int, path: str) -> LoadError:
    line = f"layer {layer} ({path}) computes its attention where heads can't be ablated nor tokens masked"
    return LoadError(line, "its weights can be seen: attn top, attn heads")


_CACHED = 2**18  # scores that are computed at a time: 1 MiB
_ON_GPU = 2**26


def _output_of_rows(
    past: CachedAttention, own: Products, allowed: torch.Tensor, hidden: torch.Tensor | None
) -> torch.Tensor:
    """The output `[S, h, r, e]` of S runs' last r rows (`own`), which share the keys and values before these.

    allowed, hidden  which of m keys the rows may see, `[r, m]` or `[h, r, m]`, and don't, `[S, h or 1, r, m]`
    """
    query, key, value = (x.float() for x in own)
    (s, h, r, d), g, m = query.shape, key.shape[1], past.keys.shape[1]
    first, w, rule = m - r, h // g, past.rule_of(slice(m - r, m))  # w query heads share a key head
    bias, unseen = rule.bias_of(0, r, 0, m), ~allowed.reshape(1, -1, r, m)
    unseen = unseen if hidden is None else unseen | hidden
    size = max(1, (_CACHED if query.device.type == "cpu" else _ON_GPU) // (w * r * m))
    outputs = []
    for group in range(g):
        heads, keys, values = slice(group * w, group * w + w), past.keys[group].float(), past.values[group].float()
        unseen_here, parts = unseen[:, heads] if unseen.shape[1] > 1 else unseen, []
        for some in (slice(start, start + size) for start in range(0, s, size)):
            q = (query[some, heads] * rule.scale).reshape(-1, w * r, d)
            before = (q.reshape(-1, d) @ keys[:first].T).view(-1, w * r, first)  # [c*w*r, d] @ [d, first]
            scores = torch.cat([before, q @ key[some, group].mT], dim=-1).view(-1, w, r, m)  # [c, w*r, d] @ [c, d, r]
            scores = rule.capped(scores)
            if bias is not None:
                scores = scores + (bias[heads] if len(bias) > 1 else bias)
            scores.masked_fill_(unseen_here[some] if len(unseen) > 1 else unseen_here, -torch.inf)
            if rule.sink is not None:
                scores = torch.cat([scores, rule.sink[heads, None, None].expand(len(q), w, r, 1)], dim=-1)
            weights = scores.softmax(-1)[..., :m].reshape(-1, w * r, m)
            output = (weights.view(-1, m)[:, :first] @ values[:first]).view(-1, w * r, values.shape[-1])
            parts.append((output + weights[..., first:] @ value[some, group]).view(-1, w, r, values.shape[-1]))
        outputs.append(torch.cat(parts))
    return torch.cat(outputs, dim=1).masked_fill(unseen.all(-1, keepdim=True), 0.0)


def _walked_output(
    past: CachedAttention | None, own: Products, rule: LayerRule, hidden: HiddenCells | None
) -> torch.Tensor:
    """The output `[S, h, n, e]` of the rows of S runs, one run after the other, some rows at a time."""
    outputs = []
    (_, h, n, _), m = own[0].shape, own[1].shape[2]
    for text, (q, k, v) in enumerate(zip(*own, strict=True)):
        if past is None:
            of_text = rule.of_text(text, slice(0, n), slice(0, m), range(h))
        else:
            first = past.keys.shape[1] - n
            of_text = past.rule_of(slice(first, first + n))
            k = torch.cat([past.keys[:, :first].to(k.dtype), k], dim=1)  # [g, m, d]
            v = torch.cat([past.values[:, :first].to(v.dtype), v], dim=1)
        of_text = of_text if hidden is None else replace(of_text, mask=all_of(of_text.mask, hidden.mask(text)))
        outputs.append(output_alone(q, k, v, of_text))
    return torch.stack(outputs)
