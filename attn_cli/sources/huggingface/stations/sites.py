"""Where the stations of a model are: modules whose inputs or outputs they are, found in one pass over a few tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import nn
from transformers import PreTrainedModel

from attn_cli.sources.huggingface.anatomy.forward_arguments import first_float_input
from attn_cli.sources.huggingface.anatomy.hooks import first_output, hooked
from attn_cli.sources.huggingface.anatomy.module_places import ModulePlaces
from attn_cli.sources.huggingface.residual.output_projection import Projections


class Site(NamedTuple):
    """A station of vectors: a module's output, or its input where it is `given`; by the number of the module's run."""

    kind: str
    layer: int
    given: bool


@dataclass
class Sites:
    """All sites of a model.

    of       the sites of every module, one list for each of its runs in a pass
    width    numbers of a vector
    blocks   the modules of every layer, in their order
    inner    of every layer its norms and the module of its MLP, by kind: "norm", "mlp_norm", "mlp", "w_o"
    final_norm  the module behind the last layer; None where there is none
    """

    width: int = 0
    of: dict[nn.Module, list[list[Site]]] = field(default_factory=dict)
    blocks: list[nn.Module] = field(default_factory=list)
    inner: list[dict[str, nn.Module]] = field(default_factory=list)
    final_norm: nn.Module | None = None

    def add(self, module: nn.Module, run: int, site: Site) -> None:
        """Add a site to a module's run."""
        runs = self.of.setdefault(module, [])
        runs.extend([] for _ in range(run + 1 - len(runs)))
        runs[run].append(site)


class _Event(NamedTuple):
    """One run of a module: where its input and output are in memory, None where they are no vector per token."""

    module: nn.Module
    run: int
    start: int
    given: int | None
    returned: int | None


def find_sites(
    model: PreTrainedModel,
    arguments: Mapping[str, Any],
    places: ModulePlaces,
    projections: Projections,
    stream: frozenset[str],
) -> Sites:
    """The sites of the stack that reads the text.

    arguments  of a pass over a few tokens
    stream     the names of that stack's stream
    """
    log = _Log(model)
    with hooked(*log.handles(model)), torch.no_grad():
        model(**arguments)
    return _sites(log, places, projections, stream)


class _Log:
    """The runs of all modules in the order in which they ended; outputs are kept, so that memory tells them apart."""

    def __init__(self, model: nn.Module) -> None:
        self.events: list[_Event] = []
        self.kept: list[Any] = []
        self.runs: dict[nn.Module, int] = {}
        self.starts: list[tuple[int, int | None]] = []
        self.clock = 0
        self.width, self.tokens = 0, 0

    def handles(self, model: nn.Module) -> list[Any]:
        """Hooks of all modules."""
        modules = [module for module in model.modules() if module is not model]
        before = [module.register_forward_pre_hook(self._enter, with_kwargs=True) for module in modules]
        return [*before, *(module.register_forward_hook(self._leave, always_call=False) for module in modules)]

    def _vector(self, x: Any) -> int | None:
        if not isinstance(x, torch.Tensor) or not x.is_floating_point() or x.ndim < 2:
            return None
        self.kept.append(x)
        return x.data_ptr()

    def _enter(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self.clock += 1
        self.starts.append((self.clock, self._vector(first_float_input(args, kwargs))))

    def _leave(self, module: nn.Module, args: Any, output: Any) -> None:
        start, given = self.starts.pop()
        self.clock += 1
        run = self.runs.get(module, 0)
        self.runs[module] = run + 1
        returned = first_output(output)
        at = self._vector(returned)
        self.events.append(_Event(module, run, start, given, at))
        if self.width == 0 and at is not None:
            self.width = returned.shape[-1]


def _sites(log: _Log, places: ModulePlaces, projections: Projections, stream: frozenset[str]) -> Sites:
    sites = Sites()
    attention = {module for module in places.attention if any(p.stream in stream for p in places.of(module))}
    block_paths = {p.block_path for module in attention for p in places.of(module) if p.stream in stream}
    lists = {path.rpartition(".")[0] for path in block_paths if path}
    blocks = {block for path in lists for block in places.model.get_submodule(path).children()}
    w_o = {found.module for found in projections.found.values() if found.module is not None}
    layer, last_end = -1, 0
    for event in (event for event in log.events if event.module in blocks):
        layer += 1
        inside = [x for x in log.events if event.start < x.start and x.module is not event.module
                  and log.events.index(x) < log.events.index(event)]  # fmt: skip
        sites.blocks.append(event.module)
        sites.add(event.module, event.run, Site("residual_in", layer, True))
        sites.add(event.module, event.run, Site("residual", layer, False))
        sites.inner.append(_inside(sites, layer, event, inside, attention, w_o))
        last_end = log.events.index(event)
    if sites.blocks:
        first = next(event for event in log.events if event.module in blocks)
        block = first.module
        parameters = [p for p in block.parameters() if p.ndim == 1]
        sites.width = int(parameters[0].shape[0]) if parameters else log.width
        after = [x for x in log.events[last_end + 1 :] if _is_norm(x.module)]
        if after:
            sites.final_norm = after[0].module
            sites.add(after[0].module, after[0].run, Site("final_norm", 2**31, False))
    return sites


def _inside(
    sites: Sites, layer: int, block: _Event, events: Sequence[_Event], attention: set[nn.Module], w_o: set[nn.Module]
) -> dict[str, nn.Module]:
    """Add the sites within one layer; the modules by what they are."""
    inner: dict[str, nn.Module] = {}
    within_attention: set[nn.Module] = set()
    attended = None
    for event in events:
        if event.module in attention:
            attended = event
            within_attention |= set(event.module.modules())
            sites.add(event.module, event.run, Site("normed", layer, True))
        if event.module in w_o:
            within_attention.add(event.module)
            inner["w_o"] = event.module
            sites.add(event.module, event.run, Site("attention", layer, False))
    if attended is None:
        return inner
    around = {event.module for event in events if attention & set(event.module.modules())} - attention
    rest = [event for event in events if event.module not in within_attention | around]
    norms = [event for event in rest if _is_norm(event.module)]
    for event in norms:
        if event.returned is not None and event.returned == attended.given:
            inner["norm"] = event.module
    mlp = _mlp(rest)
    if mlp is not None:
        inner["mlp"] = mlp.module
        sites.add(mlp.module, mlp.run, Site("mlp_normed", layer, True))
        sites.add(mlp.module, mlp.run, Site("mlp", layer, False))
        for event in norms:
            if event.returned is not None and event.returned == mlp.given:
                inner["mlp_norm"] = event.module
                if event.start > attended.start:
                    sites.add(event.module, event.run, Site("residual_mid", layer, True))
    return inner


def _mlp(events: Sequence[_Event]) -> _Event | None:
    """The outermost module with two matrices or more; None where the layer has none."""
    many = [event for event in events if sum(p.ndim >= 2 for p in event.module.parameters()) >= 2]
    outer = [x for x in many if not any(x.module is not y.module and x.module in set(y.module.modules()) for y in many)]
    return outer[-1] if outer else None


def _is_norm(module: nn.Module) -> bool:
    """True for a module without a matrix whose class is named after a norm."""
    return "norm" in type(module).__name__.lower() and all(p.ndim < 2 for p in module.parameters())
