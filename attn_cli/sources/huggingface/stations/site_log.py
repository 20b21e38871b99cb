"""The runs of a model's modules in one pass, from which its stations are found."""

from typing import Any, NamedTuple

import torch
from torch import nn

from attn_cli.sources.huggingface.anatomy.forward_arguments import first_float_input
from attn_cli.sources.huggingface.anatomy.hooks import first_output
from attn_cli.sources.huggingface.rope.reader import tables_in
from attn_cli.sources.huggingface.stations.routes import places_of_route


class Event(NamedTuple):
    """One run of a module, and the memory addresses of its input and output.

    start            when it began, counted in starts and ends of modules in the pass, from 1
    given, returned  the addresses; None where they are no floats of two axes or more
    routes           whether it returned a choice of experts
    """

    module: nn.Module
    run: int
    start: int
    given: int | None
    returned: int | None
    routes: bool


class Log:
    """The runs of all modules in the order in which they ended, to find which module is which by shared memory.

    Inputs and outputs are kept, so that no two have the same address.

    tables  the first cos and sin that each module was given
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.kept: list[Any] = []
        self.runs: dict[nn.Module, int] = {}
        self.starts: list[tuple[int, int | None]] = []
        self.clock = 0
        self.width = 0
        self.first: torch.Tensor | None = None
        self.tables: dict[nn.Module, tuple[torch.Tensor, torch.Tensor]] = {}

    def handles(self, model: nn.Module) -> list[Any]:
        """Register hooks before and behind every module in the model; returns their handles."""
        modules = [module for module in model.modules() if module is not model]
        before = [module.register_forward_pre_hook(self._enter, with_kwargs=True) for module in modules]
        return [*before, *(module.register_forward_hook(self._leave, always_call=False) for module in modules)]

    def note_first(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """Keep the hidden states that the first block is called with: its first argument of floats."""
        if self.first is None:
            self.first = first_float_input(args, kwargs)

    def _vector(self, x: Any) -> int | None:
        if not isinstance(x, torch.Tensor) or not x.is_floating_point() or x.ndim < 2:
            return None
        self.kept.append(x)
        return x.data_ptr()

    def _enter(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self.clock += 1
        self.starts.append((self.clock, self._vector(first_float_input(args, kwargs))))
        for tables in tables_in(x for x in (*args, *kwargs.values()) if isinstance(x, tuple)):
            self.tables.setdefault(module, tables)

    def _leave(self, module: nn.Module, args: Any, output: Any) -> None:
        start, given = self.starts.pop()
        self.clock += 1
        run = self.runs.get(module, 0)
        self.runs[module] = run + 1
        returned = first_output(output)
        at = self._vector(returned)
        self.events.append(Event(module, run, start, given, at, places_of_route(output) is not None))
        if self.width == 0 and at is not None:
            self.width = returned.shape[-1]
