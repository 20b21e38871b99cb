"""What is kept of the baseline for runs with changes: its attention calls, and the outputs of its blocks."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from torch import nn

from attn_cli.errors import LoadError
from attn_cli.kernel.definition.rule import Rule
from attn_cli.model.intervention import AttentionLayer
from attn_cli.sources.huggingface.anatomy.module_places import ModulePlaces
from attn_cli.sources.huggingface.capture.layer_rule import LayerRule
from attn_cli.sources.huggingface.capture.lazy_mask import LazyMask
from attn_cli.sources.huggingface.capture.ledger import LedgerEntry
from attn_cli.sources.huggingface.compat import replaced, tree_map

OUTSIDE = -1  # the block of attention calls that are in none
CallNumber = tuple[int, int]
"""One attention call of a pass: the call of a block that it is in, from 0, and its number in that."""


def outermost_blocks(places: ModulePlaces) -> list[nn.Module]:
    """All blocks of each list of blocks in which some have attention; of nested lists the outer ones."""
    lists = {place.block_path.rpartition(".")[0] for place in places.attending if place.block_path}
    outer = [path for path in lists if not any(path.startswith(f"{other}.") for other in lists)]
    modules = [block for path in outer for block in places.model.get_submodule(path).children()]
    return list({id(module): module for module in modules}.values())


class KeptRows(NamedTuple):
    """What a run of S copies takes of the baseline's outputs: all n rows of the text from `first` on."""

    copies: int
    n: int
    first: int

    def of(self, x: Any) -> Any:
        """A tensor that a block call returned in the baseline, for all copies; anything else as it is."""
        if not isinstance(x, torch.Tensor) or x.ndim == 0:
            return x
        if x.ndim == 3 and x.shape[0] != 1 and x.shape[1] == 1:  # rows first
            return self.of(x.transpose(0, 1)).transpose(0, 1)
        if x.shape[0] != 1:
            return x
        if self.first and x.ndim > 1 and x.shape[1] == self.n:
            x = x[:, self.first :]
        return x.expand(self.copies, *x.shape[1:]).clone(memory_format=torch.contiguous_format)


class BlockCalls:
    """Numbers the calls of blocks in one forward pass from 0, and within each the calls of attention.

    The baseline collects their `outputs`; a run with changes takes the rows `kept` of the first `skip`.
    """

    def __init__(self, skip: int = 0, outputs: Sequence[Any] = (), kept: KeptRows | None = None) -> None:
        self.skip, self.kept, self.outputs = skip, kept, list(outputs)
        self._count, self._block = 0, OUTSIDE
        self._attended: dict[int, int] = {}

    def next_attention(self) -> CallNumber:
        """The number of the attention call that begins now."""
        within = self._attended.get(self._block, 0)
        self._attended[self._block] = within + 1
        return self._block, within

    @contextmanager
    def of(self, blocks: Sequence[nn.Module]) -> Iterator[None]:
        """Context manager: counts the calls of these blocks, skips the first `skip`, or keeps their outputs."""
        with ExitStack() as forwards:
            for block in blocks:
                forwards.enter_context(replaced(vars(block), {"forward": self._counted(block.forward)}))
            yield

    def _counted(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            number = self._count
            self._count += 1
            if self.kept is not None and number < self.skip:
                return tree_map(self.kept.of, self.outputs[number])
            self._block = number
            output = forward(*args, **kwargs)
            self._block = OUTSIDE
            if self.kept is None:
                self.outputs.append(output)
            return output

        return call


_ROWS = 256  # whose mask is looked at together


class CachedAttention(NamedTuple):
    """Keys `[g, m, d]` and values `[g, m, e]` of a baseline call of `heads` query heads, on which last rows run."""

    keys: torch.Tensor
    values: torch.Tensor
    rule: LayerRule
    heads: int

    def rule_of(self, rows: slice) -> Rule:
        """Scale, mask, bias and the like of some rows alone, numbered from 0, over all m keys."""
        return self.rule.of_text(0, rows, slice(0, self.keys.shape[1]), range(self.heads))

    def looks_ahead(self, first: int) -> bool:
        """True if a row before `first` attends to a key from `first` on."""
        mask, m = self.rule_of(slice(0, first)).mask, self.keys.shape[1]
        places = torch.arange(m, device=self.keys.device)
        for start in range(0, first, _ROWS):
            stop = min(start + _ROWS, first)
            sees_more = mask.span(start, stop, m).last > first
            if sees_more and bool(mask.allowed(places[start:stop, None], places[None, first:]).any()):
                return True
        return False


class BaselineRun:
    """The attention calls of a run without interventions, and what runs with interventions need of each."""

    def __init__(self, first: int, *, wants_means: bool) -> None:
        self.first, self.wants_means, self.no_cache_reason = first, wants_means, ""
        self.layers: dict[CallNumber, AttentionLayer] = {}  # in running order
        self.past: dict[CallNumber, CachedAttention] = {}  # empty where last rows can't go on from it
        self.means: dict[CallNumber, torch.Tensor] = {}  # [1, h, n, e]: over all other rows
        self._allowed: dict[tuple[int, int], torch.Tensor] = {}
        self._causal_before: dict[int, bool] = {}

    def add(
        self,
        number: CallNumber,
        recorded: LedgerEntry,
        groups: Sequence[int],
        output: torch.Tensor | None = None,
        past: CachedAttention | None = None,
    ) -> None:
        """Note a call: its layer, the key head of each query head (`groups`), and its output `[1, h, n, e]`."""
        place = recorded.place
        self.layers[number] = AttentionLayer(place.layer, place.stream, recorded.blocks, tuple(groups))
        if past is None:
            self.no_cache_reason = "attention in the model's own code"
        elif past.rule.sink_per_query is not None:
            self.no_cache_reason = "a sink for every query"
        elif self.first and not self.no_cache_reason:
            self.past[number] = past
        if self.wants_means and output is None:
            raise LoadError(
                f"layer {place.layer} ({place.name}) shows no output of its heads, so that their means are unknown",
                "leave out --mean",
            )
        if self.wants_means and output is not None:
            self.means[number] = (output.sum(2, keepdim=True) - output) / max(output.shape[2] - 1, 1)

    def finish(self) -> None:
        """End the run without interventions; drop its keys and values where later runs can't go on from them."""
        tables = [x for call in self.past.values() for x in (call.rule.mask, call.rule.bias) if x is not None]
        tables = [x for x in tables if not isinstance(x, LazyMask)]
        if any(sum(x is y or (x.shape == y.shape and torch.equal(x, y)) for y in tables) == 1 for x in tables):
            self.no_cache_reason = self.no_cache_reason or "layers make masks or biases of their own"
        if self.first and not self.no_cache_reason and not self.is_causal_before(self.first):
            self.no_cache_reason = "rows see what comes after them"
        if self.no_cache_reason:
            self.forget_past()

    def forget_past(self) -> None:
        """Drop the keys and values that are kept of the run without interventions."""
        self.past.clear()
        self._causal_before.clear()

    def is_causal_before(self, first: int) -> bool:
        """True if rows before `first` attend to nothing from `first` on, so that their activations can't change."""
        if first not in self._causal_before:
            rules = {id(call.rule.mask): call for call in self.past.values()}
            self._causal_before[first] = not any(call.looks_ahead(first) for call in rules.values())
        return self._causal_before[first]

    def allowed(self, number: CallNumber, first: int) -> torch.Tensor:
        """The keys that the r rows from `first` on may attend to in a call: booleans `[r, m]`, or `[h, r, m]`."""
        call = self.past[number]
        key = (id(call.rule.mask), first)
        if key not in self._allowed:
            self._allowed = {known: cells for known, cells in self._allowed.items() if known[1] == first}
            m = call.keys.shape[1]
            places = torch.arange(m, device=call.keys.device)
            self._allowed[key] = call.rule_of(slice(first, m)).mask.allowed(places[: m - first, None], places[None])
        return self._allowed[key]
