"""Passes that begin at a later layer: those before it return what they are given, and its input is put in place."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from attn_cli.model.stations import AFTER_LAYERS, Given, Station
from attn_cli.sources.huggingface.anatomy.forward_arguments import first_float_input
from attn_cli.sources.huggingface.anatomy.hooks import hooked

Few = Callable[[set[Station], Given, int], dict[Station, np.ndarray]]
"""The numbers of stations in a pass over a few tokens, with what is given, that begins at a layer."""


class LateStart:
    """Finds layers at which a pass can begin, where their input is given, and lets passes begin there.

    blocks  the modules of the layers, in their order
    few     runs a few tokens; a pass begins at a layer only if that layer's output for them, tried once, is then equal
            to that of a whole pass, bit for bit
    """

    def __init__(self, blocks: Sequence[nn.Module], few: Few) -> None:
        self.blocks, self.few = blocks, few
        self._proved: dict[int, bool] = {}
        self._wraps: dict[nn.Module, int] = {}  # how many values a layer returns in a tuple; 0 for one alone

    def layer(self, wanted: set[Station], given: Given) -> int:
        """The layer, from 0, at which a pass can begin: the first that has a wanted station (a place in the pass)."""
        first = min(at.layer - (at.kind == "residual_in") for at in wanted)
        layer = len(self.blocks) - 1 if first == AFTER_LAYERS else first
        is_given = Station(layer, "residual_in") in given or Station(layer - 1, "residual") in given
        return layer if layer > 0 and is_given and self._is_proved(layer) else 0

    def given_from(self, layer: int, given: Given) -> Given:
        """The given numbers that a pass from this layer on needs: its input, and those in it and later layers."""
        before, at = Station(layer - 1, "residual"), Station(layer, "residual_in")
        kept = {own: read for own, read in given.items() if own.layer >= layer}
        return kept if at in given or layer == 0 else {at: given[before], **kept}

    @contextmanager
    def skipping(self, layer: int) -> Iterator[None]:
        """Context manager: the layers before this one return what they are given."""
        skipped = self.blocks[:layer]
        for block in skipped:
            block.forward = partial(_as_given, self._wraps[block])
        try:
            yield
        finally:
            for block in skipped:
                del block.forward

    def _is_proved(self, layer: int) -> bool:
        if layer not in self._proved:
            self._proved[layer] = self._prove(layer)
        return self._proved[layer]

    def _prove(self, layer: int) -> bool:
        if any("forward" in vars(block) for block in self.blocks) or len({*self.blocks}) < len(self.blocks):
            return False
        at, behind = Station(layer, "residual_in"), Station(layer, "residual")
        with hooked(*(block.register_forward_hook(self._note) for block in self.blocks)):
            right = self.few({at, behind}, {}, 0)
        if any(block not in self._wraps for block in self.blocks[:layer]) or len(right) < 2:
            return False
        try:
            late = self.few({behind}, {at: lambda: right[at]}, layer)
        except (RuntimeError, TypeError, ValueError, IndexError, KeyError, AttributeError):
            return False
        return behind in late and np.array_equal(late[behind], right[behind])

    def _note(self, block: nn.Module, args: Any, output: Any) -> None:
        if isinstance(output, torch.Tensor):
            self._wraps[block] = 0
        elif type(output) is tuple and all(x is None for x in output[1:]):
            self._wraps[block] = len(output)


def _as_given(wraps: int, *args: Any, **kwargs: Any) -> Any:
    x = first_float_input(args, kwargs)
    return (x, *[None] * (wraps - 1)) if wraps else x
