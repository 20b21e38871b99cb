"""Attention's contribution to the residual stream: W_O, found without names, and the vectors around every block."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from attn_cli.arrays import at_least_float32, to_numpy
from attn_cli.call import Place
from attn_cli.errors import InputError, LoadError
from attn_cli.model.blocks import Arrive, BlockVectors
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.anatomy.forward_arguments import first_float_input
from attn_cli.sources.huggingface.anatomy.hooks import block_hooks, hooked
from attn_cli.sources.huggingface.anatomy.module_places import ModulePlace, ModulePlaces
from attn_cli.sources.huggingface.anatomy.streams import TEXT_STREAMS
from attn_cli.sources.huggingface.capture.calls import ObservedAttention
from attn_cli.sources.huggingface.capture.ledger import Ledger
from attn_cli.sources.huggingface.capture.session import capturing

# A power of two, so that it rounds nothing by itself; W_O's bias then rounds its small weights the less.
_LARGE = 64.0


class Projections:
    """W_O of the attention modules in a pass: the first module with a matrix that is given what attention returned."""

    def __init__(self, places: ModulePlaces, arguments: Mapping[str, Any]) -> None:
        # by the attention's path the module that computes W_O, and what it was given
        self.found: dict[str, tuple[nn.Module, torch.Tensor] | None] = {}
        self._places, model = places, places.model
        self._open: tuple[str, str, torch.Tensor] | None = None  # the attention's path, its block, its output
        ledger = Ledger(model, Selection(), places=places)
        modules = [module for module in places.paths if _has_matrix(module)]
        hooks = (module.register_forward_pre_hook(self._look, with_kwargs=True) for module in modules)
        with capturing(model, ObservedAttention(ledger, None, tap=self._note)), hooked(*hooks), torch.no_grad():
            model(**arguments)

    def _note(self, module: nn.Module, place: Place, output: torch.Tensor) -> None:
        self._open = None
        if place.name not in self.found:
            blocks = [at.block_path for at in self._places.of(module) if at.path == place.name]
            self.found[place.name], self._open = None, (place.name, blocks[0] if blocks else "", output)

    def _look(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = first_float_input(args, kwargs)
        if self._open is None or given is None:
            return
        path, block, output = self._open  # output [b, n, h, e]
        is_within = not block or any(path.startswith(block + ".") for path in self._places.paths[module])
        if is_within and given.shape[-1] == output.shape[2:].numel() and given.numel() == output.numel():
            is_same = given.data_ptr() == output.data_ptr() and given.is_contiguous() and output.is_contiguous()
            if is_same or torch.equal(given.reshape(output.shape), output):
                self.found[path], self._open = (module, given.new_empty(0)), None

    def rows(self, place: Place, heads: Sequence[int], h: int, e: int) -> torch.Tensor:
        """The rows of W_O `[len(heads) * e, width]` of some of a layer's h heads; LoadError where it wasn't found."""
        found = self.found.get(place.name)
        if found is None:
            raise LoadError(
                f"layer {place.layer} ({place.name}): W_O was not found: no matrix is given what its heads give",
                "a gate, norm or mixture joins the outputs of heads: --by value needs no W_O",
            )
        return matrix_rows(*found, heads, h, e)


def matrix_rows(module: nn.Module, like: torch.Tensor, heads: Sequence[int], h: int, e: int) -> torch.Tensor:
    """The rows `[len(heads) * e, width]` of W_O that belong to some of the h heads, in float32 at least."""
    if type(module) is nn.Linear and not module.weight.is_meta:
        columns = module.weight.detach().reshape(-1, h, e)
        columns = columns if list(heads) == list(range(h)) else columns[:, list(heads)]
        return at_least_float32(columns.reshape(len(columns), -1).T)
    # W_O(x) - W_O(0) for unit vectors x: layout, quantisation, adapters and offloading don't matter
    units = torch.zeros((1, len(heads) * e + 1, h * e), dtype=like.dtype, device=like.device)
    for at, head in enumerate(heads):
        rows = torch.arange(e, device=units.device)
        units[0, at * e + rows, head * e + rows] = _LARGE
    written: Any = module(units)
    written = at_least_float32(written[0] if isinstance(written, tuple) else written)[0]
    return (written[:-1] - written[-1]) / _LARGE


def _has_matrix(module: nn.Module) -> bool:
    own = (*module.parameters(recurse=False), *module.buffers(recurse=False), getattr(module, "weight", None))
    return any(isinstance(x, torch.Tensor) and x.ndim == 2 for x in own)


def recording_blocks(
    places: ModulePlaces, selection: Selection, rows: Sequence[int], tokens: int, arrive: Arrive
) -> AbstractContextManager[None]:
    """Context manager: `arrive` gets chosen tokens' vectors around every selected block, in each place of a module."""
    blocks: dict[nn.Module, dict[str, ModulePlace]] = {}
    for place in places.attending:
        is_selected = selection.has_layer(place.layer, place.blocks, place.stream)
        if is_selected and place.block_path and place.stream in TEXT_STREAMS:
            blocks.setdefault(places.model.get_submodule(place.block_path), {})[place.block_path] = place
    before: dict[tuple[ModulePlace, ...], Any] = {}
    calls = Counter[tuple[ModulePlace, ...]]()

    def enter(of: tuple[ModulePlace, ...], given: torch.Tensor | None) -> None:
        before[of] = vectors(of[0], given)

    def leave(of: tuple[ModulePlace, ...], returned: Any) -> None:
        call, at = divmod(calls[of], len(of))
        calls[of] += 1
        arrive(BlockVectors(of[at].layer, of[at].stream, call, before[of], vectors(of[0], returned)))

    def vectors(place: ModulePlace, hidden: Any) -> Any:
        if isinstance(hidden, torch.Tensor):
            flat = hidden.detach()[0] if hidden.ndim == 3 else hidden.detach()
            if flat.ndim == 2 and flat.shape[0] == tokens:
                return to_numpy(at_least_float32(flat[list(rows)]))
        line = f"layer {place.layer} ({place.block_path}) hands on no vector per token"
        raise InputError(line, "its attention can be seen: attn top, attn matrix")

    of_blocks = {module: tuple(by_path.values()) for module, by_path in blocks.items()}
    return hooked(*block_hooks(of_blocks, enter, leave))
