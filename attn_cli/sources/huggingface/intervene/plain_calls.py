"""What is kept of the attention calls of a plain run, for runs with interventions."""

from collections.abc import Sequence

import torch

from attn_cli.call import Place
from attn_cli.errors import LoadError
from attn_cli.intervention import AttentionLayer
from attn_cli.kernel.definition.rule import Rule
from attn_cli.sources.huggingface.capture.layer_rule import LayerRule
from attn_cli.sources.huggingface.capture.lazy_mask import LazyMask
from attn_cli.sources.huggingface.intervene.block_calls import CallNumber


class PastCall:
    """One attention call of the plain run, for its rows from `first` on.

    keys, values  of the rows before, `[g, first, d]` and `[g, first, e]`
    rule          how the rows from `first` on weigh all keys
    allowed       which of all keys these rows may attend to, booleans `[r, m]` or `[h, r, m]`
    """

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, rule: Rule, allowed: torch.Tensor) -> None:
        self.keys, self.values, self.rule, self.allowed = keys, values, rule, allowed


class PlainCalls:
    """The attention calls of a plain run.

    first        the first row that later runs compute anew; 0 for all, then no keys and values are kept
    wants_means  whether the mean outputs of heads are kept
    looked       whether a visitor was shown every call that it wanted to see
    obstacle     why the rows before `first` can't be kept; "" where nothing is in the way
    """

    def __init__(self, first: int, *, wants_means: bool) -> None:
        self.first, self.wants_means = first, wants_means
        self.looked = True
        self.obstacle = ""
        self.places: dict[CallNumber, Place] = {}
        self.layers: dict[tuple[int, str], AttentionLayer] = {}
        self.past: dict[CallNumber, PastCall] = {}
        self._first_blocks: dict[tuple[int, str], int] = {}
        self._means: dict[CallNumber, torch.Tensor] = {}
        self._allowed: dict[int, tuple[object, torch.Tensor, bool]] = {}
        self._shared: list[tuple[torch.Tensor, int]] = []

    def add(self, number: CallNumber, place: Place, blocks: int, groups: Sequence[int]) -> None:
        """Note a call in a stream of `blocks` blocks."""
        where = (place.layer, place.stream)
        self.places[number] = place
        self.layers[where] = AttentionLayer(place.layer, place.stream, blocks, tuple(groups))
        self._first_blocks.setdefault(where, number.block)

    def add_output(self, number: CallNumber, output: torch.Tensor | None) -> None:
        """Keep the mean of a call's output `[1, h, n, e]`; None where the output isn't known.

        Raises LoadError where means are wanted and can't be taken.
        """
        if not self.wants_means:
            return
        if output is None:
            place = self.places[number]
            raise LoadError(
                f"layer {place.layer} ({place.name}) shows no output of its heads, so that their means are unknown",
                "leave out --mean",
            )
        self._means[number] = (output.sum(2, keepdim=True) - output) / max(output.shape[2] - 1, 1)

    def add_past(self, number: CallNumber, key: torch.Tensor, value: torch.Tensor, rule: LayerRule, h: int) -> None:
        """Keep keys `[1, g, m, d]` and values of the rows before `first`, and the rule of the rows from there on."""
        if not self.first or self.obstacle:
            return
        for numbers in (rule.mask, rule.bias):
            if numbers is not None and not isinstance(numbers, LazyMask):
                self._count_shared(numbers)
        m = key.shape[2]
        allowed, looks_ahead = self._mask_of(rule, m, h)
        if looks_ahead:
            self.obstacle = "rows see what comes after them"
            return
        kept = rule.of_text(0, slice(self.first, m), slice(0, m), range(h))
        self.past[number] = PastCall(key[0, :, : self.first], value[0, :, : self.first], kept, allowed)

    def finish(self) -> None:
        """After the plain run: masks and biases that a layer makes for itself may depend on what is changed."""
        if any(count == 1 for _, count in self._shared):
            self.obstacle = self.obstacle or "layers make masks or biases of their own"
        self._shared.clear()

    def _count_shared(self, numbers: torch.Tensor) -> None:
        """Count how many calls use these numbers, a mask or a bias: those of several depend on places alone."""
        for at, (known, count) in enumerate(self._shared):
            if known is numbers or (known.shape == numbers.shape and torch.equal(known, numbers)):
                self._shared[at] = (known, count + 1)
                return
        self._shared.append((numbers, 1))

    def where(self, number: CallNumber) -> tuple[int, str]:
        """Layer and stream of a call."""
        place = self.places[number]
        return place.layer, place.stream

    def first_block(self, layer: int, stream: str) -> int:
        """The number of the first block call in which that layer attends."""
        return self._first_blocks[layer, stream]

    def mean_of(self, number: CallNumber) -> torch.Tensor | None:
        """For every row the mean output over all other rows `[1, h, n, e]`; None unless means are wanted."""
        return self._means[number] if self.wants_means else None

    def _mask_of(self, rule: LayerRule, m: int, h: int) -> tuple[torch.Tensor, bool]:
        """Which keys the rows from `first` on may attend to, and whether earlier rows see any of these.

        Most layers share one mask, of which this is found once.
        """
        known = self._allowed.get(id(rule.mask))
        if known is not None and known[0] is rule.mask:
            return known[1], known[2]
        heads = range(h)
        device = None if rule.mask is None else rule.mask.device
        places = torch.arange(m, device=device)
        below = rule.of_text(0, slice(self.first, m), slice(0, m), heads).mask
        allowed = below.allowed(places[: m - self.first, None], places[None])
        ahead = rule.of_text(0, slice(0, self.first), slice(self.first, m), heads).mask
        looks_ahead = bool(ahead.allowed(places[: self.first, None], places[None, : m - self.first]).any())
        if isinstance(rule.mask, LazyMask):  # which has no storage: nothing is held by keeping it
            self._allowed[id(rule.mask)] = (rule.mask, allowed, looks_ahead)
        return allowed, looks_ahead
