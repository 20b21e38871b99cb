"""The place of a module in its model: number and path of its block, and the stream that the block is part of."""

import re
from functools import cached_property
from typing import NamedTuple

from torch import nn

from attn_cli.errors import InputError
from attn_cli.selection import Selection, ranges
from attn_cli.sources.huggingface.anatomy.softmax_in_code import attention_modules, modules_to_watch
from attn_cli.sources.huggingface.anatomy.streams import StreamNames, looks_like_attention, names_attention

_NUMBERED = re.compile(r"(.*[a-z]_?)(\d+)", re.IGNORECASE)


class ModulePlace(NamedTuple):
    """One occurrence of a module in its model; paths are dotted names, as `named_modules` gives them."""

    layer: int
    path: str
    stream: str  # as `StreamNames` names it
    blocks: int
    block_path: str = ""  # "" where it is in no block


class ModulePlaces:
    """Finds the `ModulePlace`s of every module; `paths` are several where blocks share it, `streams` names stacks."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.paths: dict[nn.Module, list[str]] = {}
        attention_paths = []
        for path, module in model.named_modules(remove_duplicate=False):
            if path:
                self.paths.setdefault(module, []).append(path)
                if looks_like_attention(path, module):
                    attention_paths.append(path)
        self.streams = StreamNames(model, attention_paths)
        self._places: dict[nn.Module, tuple[ModulePlace, ...]] = {}

    def of(self, module: nn.Module) -> tuple[ModulePlace, ...]:
        """The module's places, one for each of its paths; a model that is attention itself has its class for a path."""
        if module not in self._places:
            of_model = (ModulePlace(getattr(module, "layer_idx", None) or 0, type(module).__name__, "self", 1),)
            places = tuple(self._place(path) for path in self.paths.get(module, ()))
            self._places[module] = of_model if module is self.model else places
        return self._places[module]

    @cached_property
    def attention(self) -> dict[nn.Module, tuple[ModulePlace, ...]]:
        """The modules that attend if they run, by transformers' registry or their own code, with their places."""
        return {module: self.of(module) for module in attention_modules(self.model, self.watched)}

    @cached_property
    def attending(self) -> list[ModulePlace]:
        """The places of all modules that attend if they run."""
        return [place for places in self.attention.values() for place in places]

    def check(self, selection: Selection, name: str) -> None:
        """Raise InputError for a stack or layer that is selected and that the model, called `name`, lacks."""
        selection.check_stream(place.stream for place in self.attending)
        blocks = max((place.blocks for place in self.attending if selection.has_stream(place.stream)), default=0)
        for layer in selection.layers or ():
            if blocks and not -blocks <= layer < blocks:
                raise InputError(f"there is no layer {layer}", f"{name} has layers {ranges(range(blocks))}")

    @cached_property
    def watched(self) -> dict[nn.Module, bool | None]:
        """The modules that may compute attention in their own code, not by transformers' registry of functions."""
        return modules_to_watch(self.model)

    @cached_property
    def in_registry(self) -> tuple[nn.Module, ...]:
        """The modules that attend by transformers' registry of attention functions, without a softmax of their own."""
        return tuple(module for module in self.attention if module not in self.watched)

    @cached_property
    def attention_blocks(self) -> dict[nn.Module, str]:
        """The blocks that have attention, with their paths."""
        paths = dict.fromkeys(place.block_path for place in self.attending if place.block_path)
        return {self.model.get_submodule(path): path for path in paths}

    def _place(self, path: str) -> ModulePlace:
        layer, blocks, block_path = _block(self.model, path)
        return ModulePlace(layer, path, self.streams.of(path), blocks, block_path)


def are_nested(path: str, other: str) -> bool:
    """True if one of two modules is the other, or part of it, by their paths."""
    return f"{path}.".startswith(f"{other}.") or f"{other}.".startswith(f"{path}.")


def _block(model: nn.Module, path: str) -> tuple[int, int, str]:
    parts = path.split(".")
    lists = [i for i, part in enumerate(parts) if part.isdigit()]
    if not lists:
        return _named_block(model, parts)
    stack = model.get_submodule(".".join(parts[: lists[0]]))
    number, total = int(parts[lists[0]]), len(list(stack.children()))
    if len(lists) > 1:
        within = parts[lists[0] + 1 : lists[1]]
        inner = [_list_at(stage, within) for stage in stack.children()]
        classes = {type(x) for stage in inner for x in stage}
        below = parts[lists[1] + 1 :]
        if len(classes) == 1 and any(names_attention(part) for part in below) and max(map(len, inner)) > 0:
            place = sum(len(stage) for stage in inner[:number]) + int(parts[lists[1]])
            return place, sum(map(len, inner)), ".".join(parts[: lists[1] + 1])
    return number, total, ".".join(parts[: lists[0] + 1])


def _named_block(model: nn.Module, parts: list[str]) -> tuple[int, int, str]:
    """As `_block` of a path whose blocks are called by a word and a number, such as layer_0; block 0 of 1 without."""
    for i, part in enumerate(parts):
        if numbered := _NUMBERED.fullmatch(part):
            beside = [
                name
                for name, _ in model.get_submodule(".".join(parts[:i])).named_children()
                if (other := _NUMBERED.fullmatch(name)) and other[1] == numbered[1]
            ]
            return beside.index(part), len(beside), ".".join(parts[: i + 1])
    return 0, 1, ""


def _list_at(module: nn.Module, parts: list[str]) -> list[nn.Module]:
    for part in parts:
        module = getattr(module, part, None)  # type: ignore[assignment]
    return list(module.children()) if isinstance(module, nn.ModuleList | nn.Sequential) else []
