"""Where the stations of a model are: modules whose inputs or outputs they are, found in one pass over a few tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import nn
from transformers import PreTrainedModel

from attn_cli.sources.huggingface.anatomy.configuration import text_configuration
from attn_cli.sources.huggingface.anatomy.forward_arguments import first_float_input
from attn_cli.sources.huggingface.anatomy.head_counts import heads_of
from attn_cli.sources.huggingface.anatomy.hooks import first_output, hooked
from attn_cli.sources.huggingface.anatomy.module_places import ModulePlaces
from attn_cli.sources.huggingface.residual.output_projection import Projections
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


class Site(NamedTuple):
    """A station (a place in the pass, such as q) whose numbers are the input or output of a module.

    kind, layer  of the station, such as "normed" (attention's input) in layer 0
    given        True for the module's input, False for its output
    """

    kind: str
    layer: int
    given: bool


@dataclass
class Sites:
    """For every module of a model which stations, places in the pass at which numbers are compared, it gives or gets.

    of       by module, for each of its runs in a pass, the stations that its input and output are
    width    of the residual stream
    blocks   the modules of every layer, in their order
    inner    of every layer its norms, attention and MLP: "norm" and "mlp_norm" (before attention and MLP),
             "attention_after" and "mlp_after" (norms behind them), "q_norm", "k_norm", "attention", "mlp", "w_o"
    linear   of every layer its modules with one matrix, in the order in which they run: of "qkv", "w_o", "mlp"
    activations  of every layer its modules without parameters
    routers  of every layer the modules that choose experts
    heads    of every layer the number of query heads, by its attention module or the configuration; 0 where unknown
    embedding_scale  what the rows of the embedding are multiplied by before the first layer; 0 where they are not that
    final_norm  the module behind the last layer; None where there is none
    tables   cos and sin of rotary positions that modules were given
    """

    width: int = 0
    of: dict[nn.Module, list[list[Site]]] = field(default_factory=dict)
    blocks: list[nn.Module] = field(default_factory=list)
    inner: list[dict[str, nn.Module]] = field(default_factory=list)
    linear: list[dict[str, list[nn.Module]]] = field(default_factory=list)
    activations: list[list[nn.Module]] = field(default_factory=list)
    routers: list[list[nn.Module]] = field(default_factory=list)
    heads: list[int] = field(default_factory=list)
    embedding_scale: float = 0.0
    final_norm: nn.Module | None = None
    tables: dict[nn.Module, tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict)

    def add(self, module: nn.Module, run: int, site: Site) -> None:
        """Note that input or output of run number `run` of a module, from 0, are the numbers at a station of the
        pass.
        """
        runs = self.of.setdefault(module, [])
        runs.extend([] for _ in range(run + 1 - len(runs)))
        runs[run].append(site)


def find_sites(
    model: PreTrainedModel,
    arguments: Mapping[str, Any],
    places: ModulePlaces,
    projections: Projections,
    stream: frozenset[str],
) -> Sites:
    """In which modules' outputs and inputs the stations are (places in the pass), of the stack that reads the text."""
    log = Log()
    lists = {p.block_path.rpartition(".")[0] for m in places.attention for p in places.of(m) if p.stream in stream}
    blocks = [block for path in lists if path for block in model.get_submodule(path).children()]
    watch = [block.register_forward_pre_hook(log.note_first, with_kwargs=True) for block in blocks]
    with hooked(*watch), hooked(*log.handles(model)), torch.no_grad():
        model(**arguments)
    sites = _sites(log, places, projections, stream)
    if log.first is not None and sites.blocks:
        sites.embedding_scale = _scale_of(model, arguments, log.first)
    return sites


def _scale_of(model: PreTrainedModel, arguments: Mapping[str, Any], first: torch.Tensor) -> float:
    """The factor between rows of the embedding and what the first layer is given; 0 where that is something else."""
    embedding = model.get_input_embeddings()
    ids = arguments.get("input_ids")
    weight = getattr(embedding, "weight", None)
    if not isinstance(weight, torch.Tensor) or not isinstance(ids, torch.Tensor) or weight.shape[-1] != first.shape[-1]:
        return 0.0
    rows = weight.detach()[ids[0]].float()
    factor = float((first[0].float() * rows).sum() / rows.square().sum().clamp(min=1e-30))
    fits = torch.allclose(first[0].float(), rows * factor, rtol=1e-2, atol=1e-4 * float(rows.abs().max()) * abs(factor))
    return factor if fits else 0.0


def _sites(log: Log, places: ModulePlaces, projections: Projections, stream: frozenset[str]) -> Sites:
    sites = Sites(tables=log.tables)
    attention = {module for module in places.attention if any(p.stream in stream for p in places.of(module))}
    block_paths = {p.block_path for module in attention for p in places.of(module) if p.stream in stream}
    lists = {path.rpartition(".")[0] for path in block_paths if path}
    blocks = {block for path in lists for block in places.model.get_submodule(path).children()}
    w_o = {found.module for found in projections.found.values() if found.module is not None}
    layer, last_end = -1, 0
    stated = int(getattr(text_configuration(places.model.config), "num_attention_heads", 0) or 0)
    for at, event in ((at, event) for at, event in enumerate(log.events) if event.module in blocks):
        layer += 1
        inside = [x for x in log.events[:at] if event.start < x.start and x.module is not event.module]
        sites.blocks.append(event.module)
        sites.add(event.module, event.run, Site("residual_in", layer, True))
        sites.add(event.module, event.run, Site("residual", layer, False))
        w_o |= _returned_by_attention(inside, attention, w_o)
        sites.inner.append(_inside(sites, layer, inside, attention, w_o))
        sites.linear.append(_linear(inside, attention, w_o, sites.inner[-1]))
        _projected(sites, layer, inside)
        sites.activations.append(
            [x.module for x in inside if next(x.module.parameters(), None) is None and x.module not in attention]
        )
        sites.routers.append([x.module for x in inside if x.routes])
        own = next((x.module for x in inside if x.module in attention), None)
        sites.heads.append(0 if own is None else heads_of(own) or stated)
        last_end = at
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


def _returned_by_attention(events: Sequence[Event], attention: set[nn.Module], w_o: set[nn.Module]) -> set[nn.Module]:
    """The linear module whose output a layer's attention returns, where no projection of it is known."""
    attended = next((event for event in events if event.module in attention), None)
    if attended is None or any(event.module in w_o for event in events):
        return set()
    parts = set(attended.module.modules()) - {attended.module}
    linear = [event for event in events if event.module in parts and event.returned is not None
              and any(p.ndim == 2 for p in event.module.parameters(recurse=False))]  # fmt: skip
    returned = {event.module for event in linear if event.returned == attended.returned}
    behind = [event.module for event in linear if event.given not in (None, attended.given)]
    return returned or set(behind[-1:])


def _inside(
    sites: Sites, layer: int, events: Sequence[Event], attention: set[nn.Module], w_o: set[nn.Module]
) -> dict[str, nn.Module]:
    """Add the sites within one layer; the modules by what they are."""
    inner: dict[str, nn.Module] = {}
    within_attention: set[nn.Module] = set()
    attended = None
    for event in events:
        if event.module in attention:
            attended = event
            inner["attention"] = event.module
            within_attention |= set(event.module.modules())
            sites.add(event.module, event.run, Site("normed", layer, True))
        if event.module in w_o:
            within_attention.add(event.module)
            inner["w_o"] = event.module
            sites.add(event.module, event.run, Site("w_o_input", layer, True))
            sites.add(event.module, event.run, Site("attention", layer, False))
    if attended is None:
        return inner
    inside = [event for event in events if _is_norm(event.module) and event.module in within_attention]
    inner |= {kind: event.module for event, kind in zip(inside, ("q_norm", "k_norm"), strict=False)}
    around = {event.module for event in events if attention & set(event.module.modules())} - attention
    rest = [event for event in events if event.module not in within_attention | around]
    norms = [event for event in rest if _is_norm(event.module)]
    for event in norms:
        if event.returned is not None and event.returned == attended.given:
            inner["norm"] = event.module
    written = next((event.returned for event in events if event.module in w_o), None)
    mlp = _mlp(rest)
    for event in norms:
        for returned, kind, part in (
            (written, "attention_normed", "attention_after"),
            (mlp and mlp.returned, "mlp_output_normed", "mlp_after"),
        ):
            if returned is not None and event.given == returned:
                sites.add(event.module, event.run, Site(kind, layer, False))
                inner[part] = event.module
    first = mlp
    if mlp is None:  # its two matrices stand in the layer itself
        matrices = [event for event in rest if event.start > attended.start and _has_matrix(event.module)]
        first, mlp = (matrices[0], matrices[-1]) if len(matrices) > 1 else (None, None)
    if mlp is not None and first is not None:
        if first is mlp:
            inner["mlp"] = mlp.module
        sites.add(first.module, first.run, Site("mlp_normed", layer, True))
        sites.add(mlp.module, mlp.run, Site("mlp", layer, False))
        for event in norms:
            if event.returned is not None and event.returned == first.given:
                inner["mlp_norm"] = event.module
                if event.start > attended.start:
                    sites.add(event.module, event.run, Site("residual_mid", layer, True))
    return inner


def _projected(sites: Sites, layer: int, events: Sequence[Event]) -> None:
    """Add the outputs of the projections of q, k and v, where each has one."""
    modules = sites.linear[-1].get("qkv", [])
    if len(modules) == 1:
        run = next(event.run for event in events if event.module is modules[0])
        sites.add(modules[0], run, Site("qkv_projected", layer, False))
    modules = modules[:3]  # a fourth is W_O, where something stands between the heads and it
    inputs = {next(p for p in module.parameters(recurse=False) if p.ndim == 2).shape[-1] for module in modules}
    if len({id(module) for module in modules}) == 3 and len(inputs) == 1:
        runs = {event.module: event.run for event in events}
        for module, kind in zip(modules, ("q_projected", "k_projected", "v_projected"), strict=True):
            sites.add(module, runs[module], Site(kind, layer, False))


def _linear(
    events: Sequence[Event], attention: set[nn.Module], w_o: set[nn.Module], inner: Mapping[str, nn.Module]
) -> dict[str, list[nn.Module]]:
    """The modules of a layer with one matrix of their own, by where they are."""
    found: dict[str, list[nn.Module]] = {}
    within = {part for module in attention for part in module.modules()}
    in_mlp = set(inner["mlp"].modules()) if "mlp" in inner else set()
    for event in sorted(events, key=lambda event: event.start):
        if not _has_matrix(event.module):
            continue
        if event.module in w_o:
            part = "w_o"
        elif event.module in within:
            part = "qkv"
        elif event.module in in_mlp or "mlp" not in inner:
            part = "mlp"
        else:
            continue
        found.setdefault(part, []).append(event.module)
    return found


def _mlp(events: Sequence[Event]) -> Event | None:
    many = [event for event in events if sum(p.ndim >= 2 for p in event.module.parameters()) >= 2]
    outer = [x for x in many if not any(x.module is not y.module and x.module in set(y.module.modules()) for y in many)]
    return outer[-1] if outer else None


def _has_matrix(module: nn.Module) -> bool:
    return sum(p.ndim == 2 for p in module.parameters(recurse=False)) == 1


def _is_norm(module: nn.Module) -> bool:
    return "norm" in type(module).__name__.lower() and all(p.ndim < 2 for p in module.parameters())
