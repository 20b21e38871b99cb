"""Finding W_O without names: the first module with a matrix that is given what the attention function returned.

One plain forward pass finds it by memory, or by equal numbers where a model copies them into another layout. Where
neither is found, as behind a gate, a few more passes double the outputs of some heads: the first module in whose input
exactly the slices of these heads are doubled is W_O. Every head has a binary number of its own, and pass k doubles the
heads whose bit k is 1; so each head's slice is told from every other's.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from attn_cli.call import Call, Place
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.anatomy.forward_arguments import first_float_input
from attn_cli.sources.huggingface.anatomy.hooks import hooked
from attn_cli.sources.huggingface.anatomy.module_places import ModulePlaces
from attn_cli.sources.huggingface.capture.attention_function import Tap
from attn_cli.sources.huggingface.capture.batch_labels import BatchLabels
from attn_cli.sources.huggingface.capture.batch_visitor import BatchVisitor
from attn_cli.sources.huggingface.capture.ledger import Ledger
from attn_cli.sources.huggingface.capture.session import watched
from attn_cli.sources.huggingface.residual.output_projection import OutputProjection, Projections

_TOLERANCE = 1e-4  # tolerance: of doubled numbers, relative to the largest; a gate is computed again in float32 or less
_TOO_MANY = 8  # candidates that are kept of one call, each with a copy of its input


@dataclass
class _Candidate:
    """A module that was given an array of the right size, but of other numbers, and that array."""

    module: nn.Module
    given: torch.Tensor


@dataclass
class _HeadOutputs:
    """The outputs `[b, n, h, e]` of one attention call, and what came after it in its block."""

    path: str
    block: str
    output: torch.Tensor
    found: OutputProjection | None = None
    candidates: list[_Candidate] = field(default_factory=list)

    @property
    def width(self) -> int:
        """How many numbers all heads together have of a token."""
        return int(self.output.shape[2] * self.output.shape[3])


def find_projections(model: PreTrainedModel, arguments: Mapping[str, Any]) -> Projections:
    """W_O of every attention module that runs when `model` is called with `arguments`; a short text is enough."""
    search = _Search(model)
    with search.hooks(search.look):
        _run(model, arguments, search.note)
    outputs = search.outputs
    unclear = [x for x in outputs.values() if x.found is None and x.candidates]
    if unclear:
        _tell_apart(model, arguments, search, unclear)
    return Projections(
        {path: replace(x.found or _not_found(x), heads=int(x.output.shape[2])) for path, x in outputs.items()}
    )


def _tell_apart(
    model: PreTrainedModel, arguments: Mapping[str, Any], search: "_Search", unclear: list[_HeadOutputs]
) -> None:
    """Run the model with some heads doubled, and take the first candidates whose inputs follow."""
    most = max(int(x.output.shape[2]) for x in search.outputs.values())
    doubled = _Doubling(search)
    for bit in range((most + 1).bit_length()):
        doubled.bit = bit
        with search.hooks(doubled.look):
            _run(model, arguments, doubled.double)
    for x in unclear:
        following = [c for c in x.candidates if id(c) not in doubled.failed]
        if following:
            candidate = following[0]
            x.found = search.projection(candidate.module, "gate", candidate.given)


def _not_found(x: _HeadOutputs) -> OutputProjection:
    if x.candidates:
        return OutputProjection(None, why="what comes after its heads mixes them before any matrix gets them")
    return OutputProjection(None, why="no module with a matrix is given what its heads give")


def _run(model: PreTrainedModel, arguments: Mapping[str, Any], tap: Tap) -> None:
    """Run `model` with every attention output `[b, n, h, e]` passed through `tap`."""

    def ignore(call: Call) -> None:
        """Nothing is asked about the weights."""

    labels = BatchLabels(None, None, encoder_decoder=bool(getattr(model.config, "is_encoder_decoder", False)))
    visitor = BatchVisitor(ignore, Ledger(model, Selection(), labels), keeps_output=True)
    with watched(model, visitor, tap=tap), torch.no_grad():
        model(**arguments)


class _Search:
    """The first pass: which module is given the heads' outputs.

    outputs  by the paths of attention modules, those of their first calls
    """

    def __init__(self, model: nn.Module) -> None:
        self.places = ModulePlaces(model)
        self.outputs: dict[str, _HeadOutputs] = {}
        self.current: _HeadOutputs | None = None

    def hooks(self, look: Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], Any]) -> AbstractContextManager[None]:
        """Context manager: `look` is called before every module that has a matrix."""
        modules = [module for module in self.places.paths if _has_matrix(module)]
        return hooked(*(module.register_forward_pre_hook(look, with_kwargs=True) for module in modules))

    def note(self, module: nn.Module, place: Place, output: torch.Tensor) -> torch.Tensor:
        """Keep the first outputs of every attention module."""
        self.current = None
        if place.name not in self.outputs:
            blocks = [at.block_path for at in self.places.of(module) if at.path == place.name]
            self.current = _HeadOutputs(place.name, blocks[0] if blocks else "", output)
            self.outputs[place.name] = self.current
        return output

    def look(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Forward pre-hook: whether `module` is given the outputs of the attention call before it."""
        call = self.current
        if call is None or call.found is not None or not self.in_block(module, call):
            return
        given = first_float_input(args, kwargs)
        if given is None or given.shape[-1] != call.width or given.numel() != call.output.numel():
            return
        if _same_memory(given, call.output):
            call.found = self.projection(module, "memory", given)
        elif torch.equal(given.reshape(call.output.shape), call.output):
            call.found = self.projection(module, "copy", given)
        elif len(call.candidates) < _TOO_MANY:
            call.candidates.append(_Candidate(module, given.clone()))

    def in_block(self, module: nn.Module, call: _HeadOutputs) -> bool:
        """Whether `module` is part of the block of an attention call."""
        return not call.block or any(path.startswith(call.block + ".") for path in self.places.paths[module])

    def projection(self, module: nn.Module, how: str, given: torch.Tensor) -> OutputProjection:
        """`module` as the W_O that was found."""
        return OutputProjection(module, how, "", given.new_empty(0), self.places.paths[module][0])


class _Doubling:
    """A further pass, in which the heads whose number has a 1 at `bit` are doubled; numbers begin with 1.

    failed  the ids of candidates whose input didn't follow in some pass
    """

    def __init__(self, search: _Search) -> None:
        self.search, self.bit = search, 0
        self.failed: set[int] = set()
        self.current: _HeadOutputs | None = None
        self.is_next = 0

    def double(self, module: nn.Module, place: Place, output: torch.Tensor) -> torch.Tensor:
        """The outputs of the first pass, with some heads doubled."""
        self.current = self.search.outputs[place.name]
        self.is_next = 0
        first = self.current.output
        return first * self._factors(first) if first.shape == output.shape else output

    def look(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Forward pre-hook: compare a module's input with the first pass', and put that back for all that follows."""
        call = self.current
        if call is None or not self.search.in_block(module, call):
            return None
        given = first_float_input(args, kwargs)
        if given is None:
            return None
        if call.found is not None:
            is_it = call.found.module is module and given.numel() == call.output.numel()
            return _with_given(args, kwargs, given, call.output.reshape(given.shape)) if is_it else None
        if self.is_next == len(call.candidates) or call.candidates[self.is_next].module is not module:
            return None
        candidate = call.candidates[self.is_next]
        self.is_next += 1
        shape = call.output.shape
        expected = candidate.given.reshape(shape) * self._factors(call.output)
        apart = (given.reshape(shape) - expected).abs().amax(dim=(0, 1, 3)).float()  # [h]
        sizes = expected.abs().amax(dim=(0, 1, 3)).float()
        if bool((apart > _TOLERANCE * sizes.clamp(min=1e-30)).any()):
            self.failed.add(id(candidate))
        return _with_given(args, kwargs, given, candidate.given)

    def _factors(self, output: torch.Tensor) -> torch.Tensor:
        """2 for the heads that are doubled, 1 for the others `[h, 1]`."""
        numbers = torch.arange(1, output.shape[2] + 1, device=output.device)
        return (1 + ((numbers >> self.bit) & 1)).to(output.dtype)[:, None]


def _with_given(
    args: tuple[Any, ...], kwargs: dict[str, Any], given: torch.Tensor, other: torch.Tensor
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with `other` in place of `given`."""
    return tuple(other if x is given else x for x in args), {
        name: other if x is given else x for name, x in kwargs.items()
    }


def _same_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two arrays are the same numbers in the same memory and order."""
    return one.data_ptr() == other.data_ptr() and one.is_contiguous() and other.is_contiguous()


def _has_matrix(module: nn.Module) -> bool:
    """Whether a module itself has a weight of two axes, or a wrapper shows that of what it wraps."""
    own = (*module.parameters(recurse=False), *module.buffers(recurse=False), getattr(module, "weight", None))
    return any(isinstance(x, torch.Tensor) and x.ndim == 2 for x in own)
