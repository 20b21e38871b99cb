"""What is kept of the baseline for runs with changes: its attention calls, and the outputs of its blocks."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import nn

from attn_cli.call import Place
from attn_cli.errors import LoadError
from attn_cli.kernel.definition.rule import Rule
from attn_cli.model.intervention import AttentionLayer
from attn_cli.sources.huggingface.anatomy.module_places import ModulePlace
from attn_cli.sources.huggingface.capture.layer_rule import LayerRule
from attn_cli.sources.huggingface.capture.lazy_mask import LazyMask
from attn_cli.sources.huggingface.compat import tree_map

OUTSIDE = -1  # the block of attention calls that are in none


class CallNumber(NamedTuple):
    """One attention call of a pass: the call of a block that it is in, -1 for none, and its number in that, from 0."""

    block: int
    within: int


def outermost_blocks(model: nn.Module, places: Sequence[ModulePlace]) -> list[nn.Module]:
    """All blocks of each list of blocks in which some hold these attention modules; of nested lists the outer ones."""
    lists = {place.block_path.rpartition(".")[0] for place in places if place.block_path}
    outer = [path for path in lists if not any(path.startswith(f"{other}.") for other in lists)]
    modules = [block for path in outer for block in model.get_submodule(path).children()]
    return list({id(module): module for module in modules}.values())


class KeptRows(NamedTuple):
    """What a run of S copies takes of the baseline's outputs: all n rows of the text from `first` on."""

    copies: int
    n: int
    first: int

    def of(self, output: Any, *, copied: bool) -> Any:
        """What a block call returned in the baseline, for all copies."""

        def expand(x: Any) -> Any:
            if not isinstance(x, torch.Tensor) or x.ndim == 0:
                return x
            if x.ndim == 3 and x.shape[0] != 1 and x.shape[1] == 1:
                return expand(x.transpose(0, 1)).transpose(0, 1)
            if x.shape[0] != 1:
                return x
            if self.first and x.ndim > 1 and x.shape[1] == self.n:
                x = x[:, self.first :]
            wide = x.expand(self.copies, *x.shape[1:])
            return wide.clone(memory_format=torch.contiguous_format) if copied else wide

        return tree_map(expand, output)


class BlockCalls:
    """Numbers the calls of blocks in one forward pass from 0, and within each the calls of attention.

    outputs  what the calls returned: in the baseline collected; in a run with changes the first `skip` return theirs
    kept     which rows of them; None in the baseline
    """

    def __init__(self, skip: int = 0, outputs: Sequence[Any] = (), kept: KeptRows | None = None) -> None:
        self.skip, self.kept, self.outputs = skip, kept, list(outputs)
        self._count = 0
        self._block, self._within = OUTSIDE, 0
        self._outside = 0

    def next_attention(self) -> CallNumber:
        """The number of the attention call that begins now."""
        if self._block == OUTSIDE:
            self._outside += 1
            return CallNumber(OUTSIDE, self._outside - 1)
        self._within += 1
        return CallNumber(self._block, self._within - 1)

    @contextmanager
    def of(self, blocks: Sequence[nn.Module]) -> Iterator[None]:
        """Context manager: counts the calls of these blocks, skips the first `skip`, or keeps their outputs."""
        before = [(block, block.__dict__.get("forward")) for block in blocks]
        try:
            for block in blocks:
                block.forward = self._counted(block.forward)
            yield
        finally:
            for block, forward in before:
                if forward is None:
                    block.__dict__.pop("forward", None)
                else:
                    block.forward = forward

    def _counted(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            number = self._count
            self._count += 1
            if self.kept is not None and number < self.skip:
                # all but the last are read by nobody, or only through their shape
                return self.kept.of(self.outputs[number], copied=number == self.skip - 1)
            self._block, self._within = number, 0
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

    def rule_from(self, first: int) -> Rule:
        """Scale, mask, bias and the like of the rows from `first` on alone, numbered from 0, over all m keys."""
        m = self.keys.shape[1]
        return self.rule.of_text(0, slice(first, m), slice(0, m), range(self.heads))


class BaselineRun:
    """The attention calls of a run without interventions, and what runs with interventions need of each."""

    def __init__(self, first: int, *, wants_means: bool) -> None:
        self.first, self.wants_means = first, wants_means
        self.no_cache_reason = ""
        self.places: dict[CallNumber, Place] = {}
        self.layers: dict[tuple[int, str], AttentionLayer] = {}
        self.past: dict[CallNumber, CachedAttention] = {}
        self._first_blocks: dict[tuple[int, str], int] = {}
        self.means: dict[CallNumber, torch.Tensor] = {}  # by call `[1, h, n, e]`
        self._allowed: dict[tuple[int, int], torch.Tensor] = {}
        self._causal_before: dict[int, bool] = {}
        self._shared: list[tuple[torch.Tensor, int]] = []

    def add(
        self,
        number: CallNumber,
        place: Place,
        blocks: int,
        groups: Sequence[int],
    ) -> None:
        """Note an attention call: where it is in the model, and the key head of each of its query heads (`groups`)."""
        where = (place.layer, place.stream)
        self.places[number] = place
        self.layers[where] = AttentionLayer(place.layer, place.stream, blocks, tuple(groups))
        self._first_blocks.setdefault(where, number.block)

    def add_output(self, number: CallNumber, output: torch.Tensor | None) -> None:
        """Keep for each row the mean of a call's output `[1, h, n, e]` over all other rows, if means are wanted."""
        if not self.wants_means:
            return
        if output is None:
            place = self.places[number]
            raise LoadError(
                f"layer {place.layer} ({place.name}) shows no output of its heads, so that their means are unknown",
                "leave out --mean",
            )
        self.means[number] = (output.sum(2, keepdim=True) - output) / max(output.shape[2] - 1, 1)

    def add_past(self, number: CallNumber, key: torch.Tensor, value: torch.Tensor, rule: LayerRule, h: int) -> None:
        """Keep keys `[1, g, m, d]`, values `[1, g, m, e]` and rule (scale, mask ...) of a call, for later runs."""
        if not self.first or self.no_cache_reason:
            return
        for numbers in (rule.mask, rule.bias):
            if numbers is not None and not isinstance(numbers, LazyMask):
                self._count_shared(numbers)
        self.past[number] = CachedAttention(key[0], value[0], rule, h)

    def finish(self) -> None:
        """End the run without interventions; drop its keys and values where later runs can't go on from them."""
        if any(count == 1 for _, count in self._shared):
            self.no_cache_reason = self.no_cache_reason or "layers make masks or biases of their own"
        if self.first and not self.no_cache_reason and not self.is_causal_before(self.first):
            self.no_cache_reason = "rows see what comes after them"
        self._shared.clear()
        if self.no_cache_reason:
            self.forget_past()

    def forget_past(self) -> None:
        """Drop the keys and values that are kept of the run without interventions."""
        self.past.clear()
        self._causal_before.clear()

    def _count_shared(self, numbers: torch.Tensor) -> None:
        for at, (known, count) in enumerate(self._shared):
            if known is numbers or (known.shape == numbers.shape and torch.equal(known, numbers)):
                self._shared[at] = (known, count + 1)
                return
        self._shared.append((numbers, 1))

    def where(self, number: CallNumber) -> tuple[int, str]:
        """The layer's number and the stack ("self", "cross" ...) of an attention call, by the call's number."""
        place = self.places[number]
        return place.layer, place.stream

    def first_block(self, layer: int, stream: str) -> int:
        """The number of the first block call, from 0 in running order, in which that layer attends."""
        return self._first_blocks[layer, stream]

    def is_causal_before(self, first: int) -> bool:
        """True if rows before `first` attend to nothing from `first` on, so that their activations can't change."""
        if first not in self._causal_before:
            rules = {id(call.rule.mask): call for call in self.past.values()}
            self._causal_before[first] = not any(_looks_ahead(call, first) for call in rules.values())
        return self._causal_before[first]

    def allowed(self, number: CallNumber, first: int) -> torch.Tensor:
        """The keys that the r rows from `first` on may attend to in a call: booleans `[r, m]`, or `[h, r, m]`."""
        call = self.past[number]
        key = (id(call.rule.mask), first)
        if key not in self._allowed:
            self._allowed = {known: cells for known, cells in self._allowed.items() if known[1] == first}
            m = call.keys.shape[1]
            places = torch.arange(m, device=call.keys.device)
            self._allowed[key] = call.rule_from(first).mask.allowed(places[: m - first, None], places[None])
        return self._allowed[key]


def _looks_ahead(call: CachedAttention, first: int) -> bool:
    m = call.keys.shape[1]
    places = torch.arange(m, device=call.keys.device)
    mask = call.rule.of_text(0, slice(0, first), slice(0, m), range(call.heads)).mask
    for start in range(0, first, _ROWS):
        stop = min(start + _ROWS, first)
        if mask.span(start, stop, m).last > first and bool(
            mask.allowed(places[start:stop, None], places[None, first:]).any()
        ):
            return True
    return False
