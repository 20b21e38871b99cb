"""A loaded model as a reference: passes through its stations, as they are, rounded, or with mistakes."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from attn_cli.arrays import at_least_float32, to_numpy
from attn_cli.errors import InputError
from attn_cli.kernel.definition.positions import Turning
from attn_cli.kernel.definition.rule import Rule
from attn_cli.selection import ALL
from attn_cli.sources.huggingface.anatomy.forward_arguments import first_float_input, first_tokens
from attn_cli.sources.huggingface.anatomy.hooks import first_output, hooked
from attn_cli.sources.huggingface.anatomy.module_places import ModulePlaces
from attn_cli.sources.huggingface.anatomy.streams import TEXT_STREAMS
from attn_cli.sources.huggingface.capture.attend import Products
from attn_cli.sources.huggingface.capture.ledger import Ledger
from attn_cli.sources.huggingface.capture.session import attending, unlabelled
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.residual.projection_search import find_projections
from attn_cli.sources.huggingface.rope.reader import RotationReader
from attn_cli.sources.huggingface.stations.attention import StationAttention
from attn_cli.sources.huggingface.stations.mistakes import KernelMistake, attention_mistakes, problem_of
from attn_cli.sources.huggingface.stations.module_mistakes import ModuleMistake, module_mistakes
from attn_cli.sources.huggingface.stations.rounding import round_output, rounded
from attn_cli.sources.huggingface.stations.sites import Site, Sites, find_sites
from attn_cli.stations import Arrive, PlantedMistake, Shape, Station, station

_FEW = 8  # tokens of the pass that finds the sites
_PROJECTED = ("q_projected", "k_projected", "v_projected")
_MOST_LOGITS = 2**24  # numbers that come at once


class _Done(Exception):
    """Ends a pass after the last wanted station; not an error."""


class ModelReference:
    """A model as `attn_cli.stations.Reference`.

    arguments  makes the arguments of the forward for one text

    Raises InputError for a model of an encoder and a decoder.
    """

    def __init__(self, loaded: LoadedModel, arguments: Any) -> None:
        if getattr(loaded.of_transformers.config, "is_encoder_decoder", False):
            name = loaded.about["model"]
            raise InputError(f"{name} has an encoder and a decoder", "bisect reads models of one stack")
        self.loaded, self.model, self.arguments = loaded, loaded.of_transformers, arguments
        self.places = ModulePlaces(self.model)
        self._sites: Sites | None = None
        self._shapes: dict[Station, Shape] = {}
        self._module_mistakes: list[ModuleMistake] | None = None
        self._seen: dict[int, list[PlantedMistake]] = {}  # the mistakes in attention of every layer

    def shapes(self, ids: Sequence[int]) -> dict[Station, Shape]:
        """Every station with its shape, by a pass over a few tokens."""
        if not self._shapes:
            found: dict[Station, Shape] = {}

            def note(at: Station, x: np.ndarray) -> None:
                found.setdefault(at, Shape(x.shape[1] if x.ndim == 3 else 0, x.shape[-1]))

            self._pass(ids[:_FEW], None, note)
            self._shapes = dict(sorted(found.items(), key=lambda item: item[0].order))
        return self._shapes

    def logit_rows(self, tokens: int) -> np.ndarray:
        """All positions, or evenly spaced ones with the last."""
        words = self.model.config.get_text_config().vocab_size
        count = max(1, min(tokens, _MOST_LOGITS // words))
        return np.unique(np.linspace(0, tokens - 1, count).round().astype(int))

    def mistakes(self, layer: int) -> list[PlantedMistake]:
        """The mistakes of the layer, as the pass before saw it."""
        return [*self._seen.get(layer, ()), *(each.planted for each in self._patches())]

    def _note(self, layer: int, products: Products, rule: Rule, turning: Turning) -> None:
        """Keep which mistakes a layer's attention can have."""
        self._seen[layer] = list(attention_mistakes(problem_of(self.model.config, layer, products, rule, turning)))

    def _patches(self) -> list[ModuleMistake]:
        """The mistakes of modules beside attention's own arithmetic."""
        if self._module_mistakes is None:
            assert self._sites is not None
            self._module_mistakes = module_mistakes(self.model, self.loaded.generating, self._sites)
        return self._module_mistakes

    def run(
        self,
        ids: Sequence[int],
        wanted: Collection[Station],
        arrive: Arrive,
        *,
        precision: str | None = None,
        mistakes: Sequence[PlantedMistake] = (),
        layers: Collection[int] | None = None,
    ) -> None:
        """One pass, as `attn_cli.stations.Reference` says."""
        if wanted:
            self._pass(ids, set(wanted), arrive, precision, mistakes, layers)

    def _found(self, ids: Sequence[int]) -> Sites:
        if self._sites is None:
            few = first_tokens(self.arguments(ids), _FEW)
            projections = find_projections(self.model, few)
            self._sites = find_sites(self.model, few, self.places, projections, TEXT_STREAMS)
            if not self._sites.blocks:
                raise InputError(f"{self.loaded.about['model']} has no layers with attention to a text",
                                 "choose another model with --model")  # fmt: skip
        return self._sites

    def _pass(
        self,
        ids: Sequence[int],
        wanted: set[Station] | None,
        arrive: Arrive,
        precision: str | None = None,
        mistakes: Sequence[PlantedMistake] = (),
        layers: Collection[int] | None = None,
    ) -> None:
        """One pass; all stations where `wanted` is None."""
        sites, left = self._found(ids), None if wanted is None else set(wanted)
        rotations = RotationReader()
        wants_logits = self.loaded.generating is not None and (wanted is None or station("logits") in wanted)
        model = self.loaded.generating if wants_logits and self.loaded.generating is not None else self.model

        projected: list[torch.Tensor] = []

        def come(at: Station, x: torch.Tensor) -> None:
            if at.kind in _PROJECTED:  # together they are what engines compute by one product
                projected[:] = [*projected[: _PROJECTED.index(at.kind)], x]
                if at.kind == _PROJECTED[-1] and len(projected) == len(_PROJECTED):
                    come(Station(at.layer, "qkv_projected"), torch.cat(projected, -1))
            if left is not None:
                if at not in left:
                    return
                left.discard(at)
            arrive(at, to_numpy(at_least_float32(x)))
            if left is not None and not left:
                raise _Done

        def seen(kind: str, layer: int, x: torch.Tensor) -> None:
            come(Station(layer, kind), x.transpose(0, 1))  # [n, h, d]

        with ExitStack() as stack:
            stack.enter_context(suppress(_Done))
            patches = {each.planted: each for each in self._patches()} if mistakes else {}
            for mistake in mistakes:
                if mistake in patches:
                    stack.enter_context(patches[mistake].made(layers))
            rounding = stack.enter_context(rounded(model, precision)) if precision else None
            if rounding is not None:
                handles = [block.register_forward_hook(round_output(rounding)) for block in dict.fromkeys(sites.blocks)]
                stack.enter_context(hooked(*handles))
            stack.enter_context(self._watching(sites, come))
            stack.enter_context(rotations.watching(self.places.attention))
            wrong = [KernelMistake(self.model.config, each, layers) for each in mistakes if each not in patches]
            wrong.sort(key=lambda each: each.planted.kind != "q_rotated")  # rules take products as they then are
            ledger = Ledger(self.model, ALL, unlabelled(self.model), self.places)
            arguments = self.arguments(ids)
            ledger.labels.read_arguments(self.model, (), arguments)
            attend = StationAttention(ledger, rotations, TEXT_STREAMS, seen, rounding, wrong)
            attend.rounds_weights = precision in ("bfloat16", "float16")
            if not mistakes and precision is None:
                attend.note = self._note
            stack.enter_context(attending(self.model, attend))
            with torch.no_grad():
                if wants_logits:
                    rows = torch.from_numpy(self.logit_rows(len(ids)))
                    head = model.get_output_embeddings()
                    stack.enter_context(hooked(head.register_forward_pre_hook(partial(_of_rows, rows))))
                    come(station("logits"), model(**arguments).logits[0])
                else:
                    model(**arguments)

    @contextmanager
    def _watching(self, sites: Sites, come: Any) -> Iterator[None]:
        """Context manager: the vectors of every site come, in every pass of one text."""
        runs: dict[nn.Module, int] = {}

        def enter(module: nn.Module, args: Any, kwargs: Any) -> None:
            self._come(sites.of[module], runs.get(module, 0), True, first_float_input(args, kwargs), come)

        def leave(module: nn.Module, args: Any, output: Any) -> None:
            run = runs.get(module, 0)
            runs[module] = run + 1
            self._come(sites.of[module], run, False, first_output(output), come)

        handles = []
        for module in sites.of:
            handles.append(module.register_forward_pre_hook(enter, with_kwargs=True))
            handles.append(module.register_forward_hook(leave))
        with hooked(*handles):
            yield

    @staticmethod
    def _come(runs: list[list[Site]], run: int, given: bool, x: Any, come: Any) -> None:
        if run >= len(runs) or not isinstance(x, torch.Tensor):
            return
        for site in runs[run]:
            if site.given == given:
                come(Station(site.layer, site.kind), x[0] if x.ndim == 3 else x)


def _of_rows(rows: torch.Tensor, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The first argument of the LM head cut to rows."""
    return (args[0][:, rows.to(args[0].device)], *args[1:])
