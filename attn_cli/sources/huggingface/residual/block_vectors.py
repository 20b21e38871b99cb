"""The vectors of some tokens before and after every block of a model, recorded in its own forward pass."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from attn_cli.arrays import at_least_float32, to_numpy
from attn_cli.errors import InputError
from attn_cli.model.blocks import BlockVectors
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.anatomy.hooks import block_hooks, hooked
from attn_cli.sources.huggingface.anatomy.module_places import ModulePlace
from attn_cli.sources.huggingface.anatomy.streams import TEXT_STREAMS


def recording_blocks(
    model: nn.Module,
    places: Sequence[ModulePlace],
    selection: Selection,
    rows: Sequence[int],
    tokens: int,
    arrive: Callable[[BlockVectors], None],
) -> AbstractContextManager[None]:
    """Context manager: `arrive` gets chosen tokens' vectors around every selected block."""
    recorders = {
        module: _BlockRecorder(of_module, rows, tokens, arrive)
        for module, of_module in _blocks(model, places, selection).items()
    }
    return hooked(*block_hooks(recorders, _BlockRecorder.enter, _BlockRecorder.leave))


class _BlockRecorder:
    """One block's vectors; a module that the model uses in several blocks is recorded in each."""

    def __init__(
        self, places: Sequence[ModulePlace], rows: Sequence[int], tokens: int, arrive: Callable[[BlockVectors], None]
    ) -> None:
        self.places, self.rows, self.tokens, self.arrive = places, list(rows), tokens, arrive
        self.calls = 0
        self.before: Any = None

    def enter(self, given: torch.Tensor | None) -> None:
        self.before = self._rows(given)

    def leave(self, returned: Any) -> None:
        after = self._rows(returned)
        call, at = divmod(self.calls, len(self.places))
        self.arrive(BlockVectors(self.places[at].layer, self.places[at].stream, call, self.before, after))
        self.calls += 1

    def _rows(self, hidden: Any) -> Any:
        if isinstance(hidden, torch.Tensor):
            flat = hidden.detach()[0] if hidden.ndim == 3 else hidden.detach()
            if flat.ndim == 2 and flat.shape[0] == self.tokens:
                return to_numpy(at_least_float32(flat[self.rows]))
        raise InputError(
            f"layer {self.places[0].layer} ({self.places[0].block_path}) hands on no vector per token",
            "its attention can be seen: attn top, attn matrix",
        )


def _blocks(
    model: nn.Module, places: Sequence[ModulePlace], selection: Selection
) -> dict[nn.Module, list[ModulePlace]]:
    blocks: dict[nn.Module, dict[str, ModulePlace]] = {}
    for place in places:
        if not place.block_path or place.stream not in TEXT_STREAMS:
            continue
        if selection.has_layer(place.layer, place.blocks, place.stream):
            blocks.setdefault(model.get_submodule(place.block_path), {})[place.block_path] = place
    return {module: list(by_path.values()) for module, by_path in blocks.items()}
