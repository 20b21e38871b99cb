"""The numbers of stations while a pass goes by: shown as they come, and replaced where others are given."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from attn_cli.arrays import at_least_float32, to_numpy
from attn_cli.model.stations import Arrive, Given, Station
from attn_cli.sources.huggingface.anatomy.forward_arguments import first_float_input, with_first_float_input
from attn_cli.sources.huggingface.anatomy.hooks import first_output, hooked
from attn_cli.sources.huggingface.stations.sites import Site, Sites

_PROJECTED = ("q_projected", "k_projected", "v_projected")
_IN_PLACE = "residual_mid"  # what is added to it later is the same memory


class PassDone(Exception):
    """Ends a pass after the last place whose numbers are wanted; not an error."""


class Coming:
    """Shows the numbers of one pass at wanted stations (places in it, such as q), and may put other numbers there.

    wanted  the stations, after the last of which the pass ends; None for all
    arrive  is called with each of these and its numbers
    given   for some stations numbers that the pass goes on with instead
    """

    def __init__(self, wanted: set[Station] | None, arrive: Arrive, given: Given) -> None:
        self.left = None if wanted is None else set(wanted)
        self.arrive, self.given = arrive, given
        self._projected: list[torch.Tensor] = []
        self._runs: dict[nn.Module, int] = {}

    def come(self, at: Station, x: torch.Tensor) -> torch.Tensor:
        """Show the numbers `[n, ...]` at a station, a place in the pass; returns those that the pass goes on with."""
        if at.kind in _PROJECTED:  # together they are what engines compute by one product
            self._projected[:] = [*self._projected[: _PROJECTED.index(at.kind)], x]
            if at.kind == _PROJECTED[-1] and len(self._projected) == len(_PROJECTED):
                self.come(Station(at.layer, "qkv_projected"), torch.cat(self._projected, -1))
        if self.left is None or at in self.left:
            self.arrive(at, to_numpy(at_least_float32(x)))
        if self.left is not None:
            self.left.discard(at)
            if not self.left:
                raise PassDone
        if at not in self.given:
            return x
        values = self.given[at]()[: len(x)]
        if len(values) < len(x):
            return x
        return torch.from_numpy(np.array(values)).to(x).reshape(x.shape)  # a copy: models change tensors in place

    def of_heads(self, kind: str, layer: int, x: torch.Tensor) -> torch.Tensor:
        """Show heads' numbers `[h, n, d]`, as `[n, h, d]`, at a layer's station `kind`; returns those to go on with."""
        by_token = x.transpose(0, 1)
        kept = self.come(Station(layer, kind), by_token)
        return x if kept is by_token else kept.transpose(0, 1)

    @contextmanager
    def watching(self, sites: Sites) -> Iterator[None]:
        """Context manager: shows the numbers at each station as the module runs that takes or returns them."""
        handles = []
        for module, runs in sites.of.items():
            if any(site.given for run in runs for site in run):
                handles.append(module.register_forward_pre_hook(self._enter(runs), with_kwargs=True))
            handles.append(module.register_forward_hook(self._leave(runs)))
        with hooked(*handles):
            yield

    def _enter(self, runs: list[list[Site]]) -> Any:
        def enter(module: nn.Module, args: Any, kwargs: Any) -> Any:
            x = first_float_input(args, kwargs)
            kept = self._at_sites(runs, self._runs.get(module, 0), x, given=True)
            return None if x is None or kept is x else with_first_float_input(args, kwargs, kept)

        return enter

    def _leave(self, runs: list[list[Site]]) -> Any:
        def leave(module: nn.Module, args: Any, output: Any) -> Any:
            run = self._runs.get(module, 0)
            self._runs[module] = run + 1
            x = first_output(output)
            kept = self._at_sites(runs, run, x, given=False)
            if kept is x:
                return None
            return type(output)((kept, *output[1:])) if isinstance(output, tuple | list) else kept

        return leave

    def _at_sites(self, runs: list[list[Site]], run: int, x: Any, *, given: bool) -> Any:
        """What a module is given or returns, after it came to its sites: the same or what is in place of it."""
        if run >= len(runs) or not isinstance(x, torch.Tensor):
            return x
        for site in runs[run]:
            if site.given == given:
                one = x[0] if x.ndim == 3 else x
                kept = self.come(Station(site.layer, site.kind), one)
                if kept is one:
                    continue
                if site.kind == _IN_PLACE:
                    one.copy_(kept)
                else:
                    x = kept[None] if x.ndim == 3 else kept
        return x
