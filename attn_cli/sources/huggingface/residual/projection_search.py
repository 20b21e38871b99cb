"""Finding W_O without names: the first module with a matrix that is given what the attention function returned."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from attn_cli.call import Place
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.anatomy.forward_arguments import first_float_input
from attn_cli.sources.huggingface.anatomy.hooks import hooked
from attn_cli.sources.huggingface.anatomy.module_places import ModulePlaces
from attn_cli.sources.huggingface.capture.ledger import Ledger
from attn_cli.sources.huggingface.capture.observed import ObservedAttention, Tap
from attn_cli.sources.huggingface.capture.session import Capture, unlabelled
from attn_cli.sources.huggingface.residual.output_projection import OutputProjection, Projections


@dataclass
class _HeadOutputs:
    """The outputs `[b, n, h, e]` of one attention call, and W_O after it in its block."""

    block: str
    output: torch.Tensor
    found: OutputProjection | None = None
    is_passed_on: bool = False

    @property
    def width(self) -> int:
        return int(self.output.shape[2] * self.output.shape[3])


def find_projections(model: PreTrainedModel, arguments: Mapping[str, Any]) -> Projections:
    """W_O of every attention module that runs when `model` is called with `arguments`; a short text is enough."""
    search = _Search(model)
    search.run(arguments, search.note, search.look)
    outputs = search.outputs
    if any(x.found is None and x.is_passed_on for x in outputs.values()):
        search.run(arguments, search.zero, search.look_for_zeros)
    return Projections(
        {path: replace(x.found or _not_found(x), heads=int(x.output.shape[2])) for path, x in outputs.items()}
    )


def _not_found(x: _HeadOutputs) -> OutputProjection:
    if x.is_passed_on:
        return OutputProjection(None, why="what comes after its heads mixes them before any matrix gets them")
    return OutputProjection(None, why="no module with a matrix is given what its heads give")


class _Search:
    """The search for the modules whose input is the heads' outputs, of first calls, by the attention's path."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model, self.places = model, ModulePlaces(model)
        self.outputs: dict[str, _HeadOutputs] = {}
        self.current: _HeadOutputs | None = None

    def run(
        self,
        arguments: Mapping[str, Any],
        tap: Tap,
        look: Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], None],
    ) -> None:
        ledger = Ledger(self.model, Selection(), unlabelled(self.model), self.places)
        with Capture(self.model, ObservedAttention(ledger, None, tap=tap)), self._hooks(look), torch.no_grad():
            self.model(**arguments)

    def _hooks(self, look: Callable[..., None]) -> AbstractContextManager[None]:
        modules = [module for module in self.places.paths if _has_matrix(module)]
        return hooked(*(module.register_forward_pre_hook(look, with_kwargs=True) for module in modules))

    def note(self, module: nn.Module, place: Place, output: torch.Tensor) -> torch.Tensor:
        self.current = None
        if place.name not in self.outputs:
            blocks = [at.block_path for at in self.places.of(module) if at.path == place.name]
            self.current = _HeadOutputs(blocks[0] if blocks else "", output)
            self.outputs[place.name] = self.current
        return output

    def look(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        call, given = self.current, self._given(module, args, kwargs)
        if call is None or given is None:
            return
        if _same_memory(given, call.output):
            call.found = self._projection(module, "memory", given)
        elif torch.equal(given.reshape(call.output.shape), call.output):
            call.found = self._projection(module, "copy", given)
        call.is_passed_on = True

    def zero(self, module: nn.Module, place: Place, output: torch.Tensor) -> torch.Tensor:
        call = self.outputs[place.name]
        self.current = call if call.found is None and call.output.shape == output.shape else None
        if self.current is None:
            return output
        output = output.clone()
        output[:, :, ::2] = 0
        return output

    def look_for_zeros(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Forward pre-hook: whether in what `module` is given exactly every second head's slice is 0."""
        call, given = self.current, self._given(module, args, kwargs)
        if call is None or given is None:
            return
        is_zero = (given.reshape(call.output.shape) == 0).all(3).all(1).all(0)  # [h]
        if bool(is_zero[::2].all()) and not bool(is_zero[1::2].any()):
            call.found = self._projection(module, "gate", given)

    def _given(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor | None:
        call = self.current
        if call is None or call.found is not None or not self._in_block(module, call):
            return None
        given = first_float_input(args, kwargs)
        if given is None or given.shape[-1] != call.width or given.numel() != call.output.numel():
            return None
        return given

    def _in_block(self, module: nn.Module, call: _HeadOutputs) -> bool:
        return not call.block or any(path.startswith(call.block + ".") for path in self.places.paths[module])

    def _projection(self, module: nn.Module, how: str, given: torch.Tensor) -> OutputProjection:
        return OutputProjection(module, how, "", given.new_empty(0))


def _same_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.data_ptr() == other.data_ptr() and one.is_contiguous() and other.is_contiguous()


def _has_matrix(module: nn.Module) -> bool:
    own = (*module.parameters(recurse=False), *module.buffers(recurse=False), getattr(module, "weight", None))
    return any(isinstance(x, torch.Tensor) and x.ndim == 2 for x in own)
