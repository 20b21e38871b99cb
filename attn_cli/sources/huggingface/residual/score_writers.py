"""Queries and keys of an attention layer as sums over who wrote them: embeddings, heads, feed-forward, biases."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedModel

from attn_cli.call import AttentionCall, Call
from attn_cli.errors import LoadError
from attn_cli.intervention import HeadPlace
from attn_cli.score_writers import BIASES, RowChoice, Writer, WrittenRow
from attn_cli.sources.huggingface.anatomy.hooks import hooked
from attn_cli.sources.huggingface.anatomy.module_places import ModulePlace, ModulePlaces
from attn_cli.sources.huggingface.capture.attend import Products
from attn_cli.sources.huggingface.capture.batch_visitor import BatchVisitor
from attn_cli.sources.huggingface.capture.layer_rule import LayerRule
from attn_cli.sources.huggingface.capture.ledger import Ledger, SelectionDone
from attn_cli.sources.huggingface.capture.observed import ObservedAttention
from attn_cli.sources.huggingface.capture.session import attending
from attn_cli.sources.huggingface.residual.held_pass import HeldPass, Leaf, Parts
from attn_cli.sources.huggingface.residual.output_projection import OutputProjection, Projections

TOLERANCE = 1e-3  # tolerance: of the sum of all parts, relative to the largest number of a query or key
_HINT = "without writers, --why explains a score by content and position"
_EMBEDDING, _POSITIONS = Writer("embedding"), Writer("positions")

Choose = Callable[[AttentionCall], Sequence[RowChoice]]


@dataclass(frozen=True)
class ReadModel:
    """A model and what is known of it before its writers are asked for.

    embedding  the module that turns ids into vectors
    """

    model: PreTrainedModel
    places: ModulePlaces
    projections: Projections
    embedding: nn.Module | None


def written_rows(
    read: ReadModel, target: ModulePlace, ledger: Ledger, arguments: Mapping[str, Any], choose: Choose
) -> list[WrittenRow]:
    """The rows that `choose` picks of the attention at `target`, which `ledger` selects.

    Where queries and keys are no sums of what was written, rows say so. Raises LoadError for attention that shows none.
    """
    choices: Sequence[RowChoice] = ()
    heads: Sequence[int] = ()
    for from_blocks in (False, True):
        graph = HeldPass(read.model, read.places, target, from_blocks=from_blocks)
        attention = _GraphAttention(ledger, target)
        with hooked(*graph.hooks()), attending(read.model, attention), torch.enable_grad(), suppress(SelectionDone):
            read.model(**arguments)
        if attention.call is None:
            raise LoadError(f"layer {target.layer} ({target.path}) shows no q and k", _HINT)
        choices, heads = choices or choose(attention.call), attention.call.place.heads
        rows = _rows(read, target, graph, attention, choices)
        if rows is not None:
            return rows
        ledger.runs.clear()  # the second pass counts anew
    obstacle = (
        f"queries and keys of layer {target.layer} are no sum of what was written before; gates, norms of several "
        "vectors or paths between tokens make them so"
    )
    nothing = np.zeros((0, 0))
    return [
        WrittenRow(HeadPlace(target.layer, heads[choice.head], target.stream), (), nothing,
                   np.zeros((len(choice.keys), 0, 0)), nothing, obstacle)
        for choice in choices
    ]  # fmt: skip


class _GraphAttention(ObservedAttention):
    """Keeps the call of one attention module, with q and k as its pass computed them, and ends the pass there."""

    def __init__(self, ledger: Ledger, target: ModulePlace) -> None:
        super().__init__(ledger, BatchVisitor(self._visit, ledger))
        self.target = target
        self.qkv: Products | None = None
        self.call: AttentionCall | None = None

    def of_products(
        self,
        module: nn.Module,
        way: str,
        qkv: Products,
        rule: LayerRule,
        sink_per_query: torch.Tensor | None = None,
    ) -> torch.Tensor | None:
        """As of an observed call, which gets no graph."""
        self.qkv = qkv
        query, key, value = (x.detach() for x in qkv)
        return super().of_products(module, way, (query, key, value), rule, sink_per_query)

    def _visit(self, call: Call) -> None:
        if call.place.name != self.target.path:
            return
        if isinstance(call, AttentionCall):
            self.call = call
        raise SelectionDone


def _rows(
    read: ReadModel, target: ModulePlace, graph: HeldPass, attention: _GraphAttention, choices: Iterable[RowChoice]
) -> list[WrittenRow] | None:
    """The chosen rows; None where what the leaves add doesn't sum to them."""
    call = attention.call
    assert call is not None and attention.qkv is not None
    splits = [_Split(read, leaf) for leaf in graph.leaves]
    query, key, _ = attention.qkv
    if not (torch.equal(query[0, list(call.place.heads)], call.q) and query.requires_grad and key.requires_grad):
        return None
    named = dict.fromkeys(writer for split in splits for writer in split.writers if writer != BIASES)
    writers = (*named, BIASES)
    index = {writer: at for at, writer in enumerate(writers)}

    def summed(vector: torch.Tensor) -> np.ndarray | None:
        parts = graph.parts(vector, [split.writes for split in splits])
        return _summed(parts, splits, index, vector.detach())

    rows = []
    for choice in choices:
        head = call.place.heads[choice.head]
        k = key[0, head // (query.shape[1] // key.shape[1])]
        visible = torch.from_numpy(choice.visible).to(k)
        base = (visible / visible.sum()) @ k if choice.against is None else k[choice.against]
        found = [
            summed(query[0, head, choice.row] * call.rule.scale),
            summed(base),
            *(summed(k[x]) for x in choice.keys),
        ]
        known = [x for x in found if x is not None]
        if len(known) < len(found):
            return None
        of_query, of_base, *of_keys = known
        place = HeadPlace(target.layer, head, target.stream)
        rows.append(_without_silent(WrittenRow(place, writers, of_query, np.stack(of_keys), of_base)))
    return rows


def _without_silent(row: WrittenRow) -> WrittenRow:
    """The row without modules, other than heads, that wrote nothing that queries or keys are made of."""
    wrote = (row.queries != 0).any(1) | (row.keys != 0).any((0, 2)) | (row.base != 0).any(1)
    kept = [at for at, writer in enumerate(row.writers) if wrote[at] or writer.kind in ("head", "biases")]
    writers = tuple(row.writers[at] for at in kept)
    return WrittenRow(row.place, writers, row.queries[kept], row.keys[:, kept], row.base[kept])


def _summed(
    parts: Parts, splits: Sequence["_Split"], index: Mapping[Writer, int], vector: torch.Tensor
) -> np.ndarray | None:
    """What each writer adds to a vector, `[W, d]`; None where that is not the vector."""
    total = np.zeros((len(index), len(vector)))
    for of_leaf, split in zip(parts.of_leaves, splits, strict=True):
        for writer, part in zip(split.writers, of_leaf.numpy(), strict=False):
            total[index[writer]] += part
    total[index[BIASES]] += parts.constants.numpy()
    expected = vector.double().cpu().numpy()
    tolerance = max(TOLERANCE, 2 * torch.finfo(vector.dtype).eps)
    if not np.abs(total.sum(axis=0) - expected).max() <= tolerance * np.abs(expected).max():
        return None
    return total


class _Split:
    """The writers of one leaf: the heads and the bias of a W_O, or one writer for all of it."""

    def __init__(self, read: ReadModel, leaf: Leaf) -> None:
        self.leaf, self.read = leaf, read
        self.writes: Callable[[torch.Tensor], torch.Tensor] | None = None
        place = next(iter(read.places.of(leaf.module)), None)
        projection = next(
            ((path, x) for path, x in read.projections.found.items() if x.module is leaf.module), None
        )  # fmt: skip
        self.writers: tuple[Writer, ...] = (self._writer(place),)
        if projection is not None and leaf.given:
            path, w_o = projection
            at = read.places.of(read.model.get_submodule(path))[0]
            self.writers = tuple(Writer("head", at.layer, head, at.stream) for head in range(w_o.heads))
            bias = w_o.constant(leaf.given[0].shape[-1])
            self.writers += (BIASES,) * bool(bias.any())
            self.writes = lambda rows: _of_heads(w_o, leaf, rows, bias)

    def _writer(self, place: ModulePlace | None) -> Writer:
        """The writer of a leaf whose heads are not told apart."""
        if self.leaf.module is self.read.model or self.leaf.module is self.read.embedding or place is None:
            return _EMBEDDING
        if not place.block_path:
            return (
                _POSITIONS
                if any(map(_counts, self.leaf.given))
                else Writer(place.path.rpartition(".")[2].replace("_", " "))
            )
        attention = [x for module in self.read.places.attention for x in self.read.places.of(module)]
        around = next((x for x in attention if place.path.startswith(f"{x.path}.")), None)
        if around is not None:
            return Writer("attention", around.layer, None, around.stream)
        return Writer("mlp", place.layer, None, place.stream)


def _counts(given: torch.Tensor) -> bool:
    """True if numbers count up by one, as positions do."""
    if given.is_floating_point() or given.numel() < 2:
        return False
    flat = given.reshape(-1)
    return bool((flat[1:] - flat[:-1] == 1).all())


def _of_heads(w_o: OutputProjection, leaf: Leaf, rows: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """What each head of a layer wrote in these rows, and W_O's bias if that isn't 0: `[h or h + 1, rows, width]`."""
    given = leaf.given[0].reshape(-1, leaf.given[0].shape[-1])[rows].to(leaf.written.dtype)
    z = given.reshape(len(given), w_o.heads, -1)  # [rows, h, e]
    with torch.no_grad():
        matrix = w_o.matrix(range(w_o.heads), w_o.heads, z.shape[-1]).to(z.dtype)
    written = z.transpose(0, 1) @ matrix.reshape(w_o.heads, z.shape[-1], -1)  # [h, rows, e] @ [h, e, width]
    return torch.cat([written, bias.to(z.dtype).expand(1, len(given), -1)]) if bool(bias.any()) else written
