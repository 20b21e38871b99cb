"""Queries and keys of an attention layer as sums over who wrote them: embeddings, heads, feed-forward, biases."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedModel

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call
from attn_cli.errors import LoadError
from attn_cli.model.intervention import HeadPlace
from attn_cli.model.score_writers import BIASES, RowChoice, Writer, WrittenRow
from attn_cli.sources.huggingface.anatomy.hooks import hooked
from attn_cli.sources.huggingface.anatomy.module_places import ModulePlace, ModulePlaces
from attn_cli.sources.huggingface.capture.layer_rule import LayerRule, Products
from attn_cli.sources.huggingface.capture.ledger import Ledger, SelectionDone
from attn_cli.sources.huggingface.capture.observed import ObservedAttention
from attn_cli.sources.huggingface.capture.session import Capture
from attn_cli.sources.huggingface.residual.held_pass import HeldPass
from attn_cli.sources.huggingface.residual.output_projection import OutputProjection, Projections
from attn_cli.sources.huggingface.residual.written_products import Leaf, Split

TOLERANCE = 1e-3  # tolerance: of the sum of all parts, relative to the largest number of a query or key
_HINT = "without writers, --why explains a score by content and position"
_EMBEDDING, _POSITIONS = Writer("embedding"), Writer("positions")

Choose = Callable[[AttentionCall], Sequence[RowChoice]]


@dataclass(frozen=True)
class ReadModel:
    """A model, and what is needed to write its queries and keys as sums over the modules that wrote to the stream.

    places       of its attention modules: path, block, stack
    projections  W_O of each attention module
    embedding    the module that turns ids into vectors; None where there is none
    """

    model: PreTrainedModel
    places: ModulePlaces
    projections: Projections
    embedding: nn.Module | None


def written_rows(
    read: ReadModel, target: ModulePlace, ledger: Ledger, arguments: Mapping[str, Any], choose: Choose
) -> list[WrittenRow]:
    """The rows that `choose` picks of the attention at `target`, each query and key as a sum over its writers.

    Writers are the embedding, heads, MLPs and biases that added to the residual stream before. Where queries and keys
    are no such sums, rows say so in `obstacle`.

    ledger     selects the heads of the attention call that `choose` gets
    arguments  of the model's forward

    Raises LoadError for attention that shows no queries and keys.
    """
    choices: Sequence[RowChoice] = ()
    heads: Sequence[int] = ()
    for written in _passes(read, target, ledger, arguments):
        choices, heads = choices or choose(written.call), written.call.place.heads
        rows = [written.row(choice) for choice in choices]
        if all(row is not None for row in rows):
            return [row for row in rows if row is not None]
    obstacle = (
        f"queries and keys of layer {target.layer} are no sum of what was written before; gates, norms of several "
        "vectors or paths between tokens make them so"
    )
    places = [HeadPlace(target.layer, heads[choice.head], target.stream) for choice in choices]
    return [
        WrittenRow(place, (), np.zeros((0, 0)), np.zeros((len(choice.keys), 0, 0)), obstacle)
        for place, choice in zip(places, choices, strict=True)
    ]


def _passes(
    read: ReadModel, target: ModulePlace, ledger: Ledger, arguments: Mapping[str, Any]
) -> Iterator["_WrittenPass"]:
    """A pass whose leaves are all modules that write; then one in which the first block's input is one leaf."""
    for from_blocks in (False, True):
        graph = HeldPass(read.model, read.places, target, from_blocks=from_blocks)
        attention = _GraphAttention(ledger, target)
        with hooked(*graph.hooks()), Capture(read.model, attention), torch.enable_grad():
            read.model(**arguments)
        if attention.call is None or attention.qkv is None:
            raise LoadError(f"layer {target.layer} ({target.path}) shows no q and k", _HINT)
        yield _WrittenPass(read, target, graph, attention.call, attention.qkv)
        ledger.runs.clear()  # the second pass counts anew


class _GraphAttention(ObservedAttention):
    """Keeps the call of one attention module, with q and k as its pass computed them, and ends the pass there."""

    def __init__(self, ledger: Ledger, target: ModulePlace) -> None:
        super().__init__(ledger, self._visit)
        self.target = target
        self.qkv: Products | None = None
        self.call: AttentionCall | None = None

    def of_products(self, module: nn.Module, way: str, qkv: Products, rule: LayerRule) -> torch.Tensor | None:
        """The output of a call, which is shown without its graph; None unless it was computed meanwhile."""
        self.qkv = qkv
        query, key, value = (x.detach() for x in qkv)
        return super().of_products(module, way, (query, key, value), rule)

    def _visit(self, call: Call) -> None:
        if call.place.name != self.target.path:
            return
        if isinstance(call, AttentionCall):
            self.call = call
        raise SelectionDone


class _WrittenPass:
    """The queries and keys of one call as sums over what the leaves of its pass wrote."""

    def __init__(
        self, read: ReadModel, target: ModulePlace, graph: HeldPass, call: AttentionCall, qkv: Products
    ) -> None:
        self.target, self.graph, self.call = target, graph, call
        self.splits = [_Split(read, leaf) for leaf in graph.leaves]
        self.query, self.key, _ = qkv
        named = dict.fromkeys(writer for split in self.splits for writer in split.writers if writer != BIASES)
        self.writers = (*named, BIASES)
        self.index = {writer: at for at, writer in enumerate(self.writers)}
        self.has_graph = torch.equal(self.query[0, list(call.place.heads)], call.q) and all(
            x.requires_grad for x in (self.query, self.key)
        )

    def row(self, choice: RowChoice) -> WrittenRow | None:
        """The scores of one row; None where what the leaves add doesn't sum to its query and keys."""
        if not self.has_graph:
            return None
        head = self.call.place.heads[choice.head]
        k = self.key[0, self._group(head)]
        visible = torch.from_numpy(choice.visible).to(k)
        base = (visible / visible.sum()) @ k if choice.against is None else k[choice.against]
        query = self._query(head, choice.row)
        found = [self._summed(query, query), *(self._summed(k[key] - base, k[key]) for key in choice.keys)]
        known = [x for x in found if x is not None]
        if len(known) < len(found):
            return None
        of_query, *of_keys = known
        place = HeadPlace(self.target.layer, head, self.target.stream)
        kept = self._wrote(of_query, *of_keys)
        writers = tuple(self.writers[at] for at in kept)
        return WrittenRow(place, writers, of_query[kept], np.stack(of_keys)[:, kept])

    def _wrote(self, *parts: np.ndarray) -> list[int]:
        """The places of biases, and of the writers that wrote something of these parts `[W, d]`."""
        wrote = np.any([(part != 0).any(axis=1) for part in parts], axis=0)
        return [at for at, writer in enumerate(self.writers) if wrote[at] or writer == BIASES]

    def _group(self, head: int) -> int:
        return head // (self.query.shape[1] // self.key.shape[1])

    def _query(self, head: int, row: int) -> torch.Tensor:
        return self.query[0, head, row] * self.call.rule.scale

    def _summed(self, vector: torch.Tensor, like: torch.Tensor) -> np.ndarray | None:
        """The contribution of each writer to a vector `[W, d]`; None where their sum is not the vector.

        like  a vector whose size says what is rounding
        """
        parts = self.graph.parts(vector, [split.parts for split in self.splits])
        total = np.zeros((len(self.writers), len(vector)))
        for of_leaf, split in zip(parts.of_leaves, self.splits, strict=True):
            for writer, part in zip(split.writers, of_leaf.numpy(), strict=False):
                total[self.index[writer]] += part
        total[self.index[BIASES]] += parts.constants.numpy()
        expected, size = (x.detach().double().cpu().numpy() for x in (vector, like))
        return total if _agree(total.sum(axis=0), expected, size, vector.dtype) else None


def _agree(one: np.ndarray, other: np.ndarray, like: np.ndarray, dtype: torch.dtype) -> bool:
    """True if numbers are the same as far as vectors like this one of that precision can be taken apart."""
    tolerance = max(TOLERANCE, 2 * torch.finfo(dtype).eps)
    return bool(np.abs(one - other).max() <= tolerance * np.abs(like).max())


class _Split:
    """The writers of one leaf: the heads and the bias of a W_O, or one writer for all of it."""

    def __init__(self, read: ReadModel, leaf: Leaf) -> None:
        self.leaf, self.read = leaf, read
        self.parts: Split | None = None
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
            self.parts = Split(len(self.writers), _HeadParts(w_o, leaf, bias))

    def _writer(self, place: ModulePlace | None) -> Writer:
        """The writer of a leaf whose heads are not told apart."""
        module, embedding = self.leaf.module, self.read.embedding
        shares = embedding is not None and getattr(module, "weight", None) is getattr(embedding, "weight", self)
        if module is self.read.model or shares or place is None:
            return _EMBEDDING
        if not place.block_path:
            name = place.path.rpartition(".")[2].replace("_", " ")
            return _POSITIONS if any(map(_counts, self.leaf.given)) else Writer(name)
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


class _HeadParts:
    """The output after W_O of each head of a layer, and W_O's bias unless it is 0."""

    def __init__(self, w_o: OutputProjection, leaf: Leaf, bias: torch.Tensor) -> None:
        self.w_o, self.leaf, self.bias = w_o, leaf, bias
        (self.given, *_) = leaf.given

    @cached_property
    def matrix(self) -> torch.Tensor:
        """W_O head by head `[h, e, width]`."""
        h, e = self.w_o.heads, self.given.shape[-1] // self.w_o.heads
        with torch.no_grad():
            return self.w_o.matrix(range(h), h, e).to(self.leaf.written.dtype).reshape(h, e, -1)

    def __call__(self, rows: torch.Tensor, out: torch.Tensor) -> None:
        """Put the parts in these rows into `[h or h + 1, rows, width]`."""
        z = self.given.reshape(-1, self.given.shape[-1])[rows].to(out.dtype)
        z = z.reshape(len(z), *self.matrix.shape[:2]).transpose(0, 1)
        torch.matmul(z, self.matrix, out=out[: len(z)])  # [h, rows, e] @ [h, e, width]
        out[len(z) :] = self.bias.to(out.dtype)
