"""The records of an open capture: the place of each attention call, how often it ran, and what is selected."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import nn

from attn_cli.call import Place
from attn_cli.errors import LoadError
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.anatomy.configuration import configuration_of
from attn_cli.sources.huggingface.anatomy.module_places import ModulePlace, ModulePlaces, are_nested
from attn_cli.sources.huggingface.capture.batch_labels import BatchLabels
from attn_cli.sources.huggingface.known_types import REPEATS_BLOCKS


class SelectionDone(Exception):
    """Ends a forward pass after the last selected layer; not an error."""


OutputProjections = Callable[[Place, Sequence[int], int, int], torch.Tensor]
"""Gives from (place, heads, h, e) the rows of W_O `[len(heads) * e, width]` of `heads`, indices among h."""


class LedgerEntry(NamedTuple):
    """One attention call of a pass, of all heads and texts."""

    place: Place
    blocks: int
    is_selected: bool


class Ledger:
    """What is noted while a model's attention is captured: which modules ran, how often, which are selected."""

    def __init__(
        self,
        model: nn.Module,
        selection: Selection,
        labels: BatchLabels | None = None,
        places: ModulePlaces | None = None,
        projections: OutputProjections | None = None,
    ) -> None:
        self.selection, self.labels = selection, labels or BatchLabels(model)
        self.calls: dict[tuple[str, int], int] = {}  # by stream and number of a block
        self.blocks: dict[str, int] = {}
        self.runs: dict[nn.Module, int] = {}
        self.ran: set[nn.Module] = set()  # those that may attend, whether it was captured or not
        # selected modules whose attention was not captured, with the function in which they attended, if it is known
        self.unseen: dict[ModulePlace, str] = {}
        self.not_over_keys: dict[ModulePlace, None] = {}  # of selected modules without a softmax over keys
        self.multiplied: dict[nn.Module, None] = {}
        self.dropouts: dict[nn.Module, float] = {}  # the share of weights that modules drop in this pass
        self.notes: dict[nn.Module, str] = {}  # what a user has to know of the weights of a module's next call
        self.projections = projections
        self.places = places or ModulePlaces(model)
        self._model = model
        self._runs_needed: dict[nn.Module, int] = {}
        self._ends_with_call = False

    @property
    def total(self) -> int:
        """The number of attention calls recorded."""
        return sum(self.calls.values())

    def end_after_selection(self, usual_runs: Mapping[nn.Module, int] | None = None) -> None:
        """End the pass after every selected module, with its call if `usual_runs`, those of a whole pass, allow it."""
        repeats = configuration_of(self._model).model_type in REPEATS_BLOCKS
        if repeats or (self.selection.layers is None and usual_runs is None):
            return
        attention = self.places.attention.items()
        self._runs_needed = {module: len(places) for module, places in attention if any(map(self._selects, places))}
        self._ends_with_call = usual_runs is not None and self._runs_needed.items() <= usual_runs.items()

    def end_if_done(self) -> None:
        """Raise SelectionDone after the call that is known to be the last selected one."""
        if self._ends_with_call and self._is_done():
            raise SelectionDone

    def _is_done(self) -> bool:
        return all(self.runs.get(module, 0) >= count for module, count in self._runs_needed.items())

    def record(self, module: nn.Module, way: str) -> LedgerEntry:
        """Count a call: its place, and whether it is selected; raises SelectionDone after the last selected one."""
        if self._runs_needed and module not in self._runs_needed and self._is_done():
            raise SelectionDone
        run = self.runs.get(module, 0)
        self.runs[module] = run + 1
        place = self._place(module, run)
        self.calls[place.stream, place.layer] = self.calls.get((place.stream, place.layer), 0) + 1
        self.blocks[place.stream] = place.blocks
        share = self.dropouts.get(module)
        dropped = f"dropout of {share:.2g} is on: weights are shown as they are before it" if share else ""
        note = dropped or self.notes.get(module, "")
        shown = Place(place.layer, place.path, (), (), place.stream, way=way, note=note)
        return LedgerEntry(shown, place.blocks, self._selects(place))

    def record_unseen(self, module: nn.Module, kernel: str = "") -> None:
        """Note in `unseen` a module that attended without a call being captured; only if its layer is selected."""
        place = self._place(module)
        if self._selects(place):
            self.unseen[place] = self.unseen.get(place, "") or kernel

    def record_silent(self) -> None:
        """Note in `unseen` the places of modules that ran by the registry, but of which no call was captured."""
        silent = [module for module in self.ran if module not in self.runs and module in self.places.in_registry]
        known = [place.path for module in self.runs for place in self.places.of(module)] if silent else []
        known += [place.path for place in (*self.unseen, *self.not_over_keys)]
        for module in silent:
            if not any(are_nested(place.path, path) for place in self.places.of(module) for path in known):
                self.record_unseen(module)

    def record_not_over_keys(self, module: nn.Module) -> None:
        """Note an attention module of a selected layer that has no softmax, or one that is not over keys."""
        place = self._place(module)
        if self._selects(place):
            self.not_over_keys[place] = None

    def _place(self, module: nn.Module, run: int = 0) -> ModulePlace:
        places = self.places.of(module)
        if not places:
            return ModulePlace(getattr(module, "layer_idx", None) or 0, type(module).__name__, "self", 1)
        return places[run % len(places)]

    def _selects(self, place: ModulePlace) -> bool:
        return self.selection.has_layer(place.layer, place.blocks, place.stream)


def nothing_seen(model: nn.Module, ledger: Ledger) -> LoadError:
    """The error for a module in whose passes no attention was captured; it names the modules that may have attended."""
    name = type(model).__name__
    if ledger.unseen:
        places = _paths(f"{place.path} ({kernel})" if kernel else place.path for place, kernel in ledger.unseen.items())
        return LoadError(
            f"{name} attended where it can't be seen: {places}",
            "choose SDPA or eager attention of plain tensors where the module lets you",
        )
    if ledger.not_over_keys:
        places = _paths(place.path for place in ledger.not_over_keys)
        return LoadError(f"{name}: the attention of {places} has no softmax over keys", "attn shows softmax attention")
    paths = (next(iter(ledger.places.paths.get(module, ())), "its own forward") for module in ledger.multiplied)
    if places := _paths(paths):
        return LoadError(
            f"{name}: no attention was seen, but batches of matrices were multiplied in {places}",
            "attn sees a softmax over keys, multiplied by values, torch's SDPA and multi-head attention",
        )
    return LoadError(f"{name}: no attention was seen, and no matrices were multiplied", "did its forward pass run?")


def _paths(paths: Iterable[str], most: int = 4) -> str:
    found = list(dict.fromkeys(paths))
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more
