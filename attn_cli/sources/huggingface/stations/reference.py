"""A loaded model as a reference: passes through its stations, as they are, rounded, or with mistakes."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel

from attn_cli.errors import InputError
from attn_cli.kernel.definition.positions import Turning
from attn_cli.kernel.definition.rule import Rule
from attn_cli.model.stations import Arrive, Given, Mistakes, PlantedMistake, Shape, Station, station
from attn_cli.selection import ALL
from attn_cli.sources.huggingface.anatomy.forward_arguments import first_tokens
from attn_cli.sources.huggingface.anatomy.hooks import hooked
from attn_cli.sources.huggingface.anatomy.streams import TEXT_STREAMS
from attn_cli.sources.huggingface.capture.layer_rule import Products
from attn_cli.sources.huggingface.capture.ledger import Ledger
from attn_cli.sources.huggingface.capture.session import Capture, unlabelled
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.residual.projection_search import find_projections
from attn_cli.sources.huggingface.rope.reader import RotationReader
from attn_cli.sources.huggingface.stations.attention import StationAttention, WrongAttention
from attn_cli.sources.huggingface.stations.changes import ModuleMistake
from attn_cli.sources.huggingface.stations.coming import Coming, PassDone
from attn_cli.sources.huggingface.stations.end_mistakes import mistakes_of_embeddings, mistakes_of_logits
from attn_cli.sources.huggingface.stations.late_start import LateStart
from attn_cli.sources.huggingface.stations.mistakes import KernelMistake, attention_mistakes, problem_of
from attn_cli.sources.huggingface.stations.mlp_mistakes import mistakes_of_experts, mistakes_of_mlps
from attn_cli.sources.huggingface.stations.norm_mistakes import mistakes_of_norms
from attn_cli.sources.huggingface.stations.own_code import LastProduct
from attn_cli.sources.huggingface.stations.projection_mistakes import mistakes_of_biases, mistakes_of_projections
from attn_cli.sources.huggingface.stations.rotary_tables import mistakes_of_tables
from attn_cli.sources.huggingface.stations.rounding import round_output, rounded
from attn_cli.sources.huggingface.stations.sites import Sites, find_sites
from attn_cli.sources.memory import give_back

_NEAR = {"bfloat16": 2.0**-5, "float16": 2.0**-8, "4-bit": 2.0**-2}
_OTHERWISE = 2.0**-19
"""The share of the largest score by which two experts differ at most that may change places: eight roundings."""


class NearRoutes(TorchFunctionMode):
    """A torch function mode: routers choose the runner-up in place of their last expert, where both are near.

    They call `torch.topk` or `torch.max`. Near is a difference of less than a few roundings in `precision`, relative to
    the largest score: 2⁻⁵ in bfloat16, 2⁻⁸ in float16, a quarter in 4 bits, 2⁻¹⁹ in any other.
    """

    def __init__(self, precision: str) -> None:
        super().__init__()
        self.near = _NEAR.get(precision, _OTHERWISE)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run `func`."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func in (torch.max, torch.Tensor.max) and not isinstance(result, torch.Tensor):
            return self._greatest(args, kwargs, result)
        if func not in (torch.topk, torch.Tensor.topk) or kwargs.get("largest") is False:
            return result
        scores, (values, chosen) = args[0], result
        count, axis = chosen.shape[-1], kwargs.get("dim", args[2] if len(args) > 2 else -1)
        if axis not in (-1, scores.ndim - 1) or count >= scores.shape[-1] or not scores.is_floating_point():
            return result
        more, numbers = func(scores, count + 1, dim=-1)
        is_near = more[..., -2:-1] - more[..., -1:] < self.near * values.abs().amax(-1, keepdim=True)
        last = torch.arange(count + 1, device=chosen.device) == count - 1
        one, other = (torch.where(is_near & last[:-1], x[..., -1:], x[..., :-1]) for x in (more, numbers))
        return torch.return_types.topk((one, other))

    def _greatest(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        """The maximum over the last axis and its place, or those of the runner-up."""
        scores, axis = args[0], kwargs.get("dim", args[1] if len(args) > 1 else None)
        if axis not in (-1, scores.ndim - 1) or not scores.is_floating_point() or scores.shape[-1] < 2:
            return result
        values, places = torch.topk(scores, 2, dim=-1)
        is_near = values[..., :1] - values[..., 1:] < self.near * values[..., :1].abs()
        one, other = (torch.where(is_near, x[..., 1:], x[..., :1]).reshape(result[0].shape) for x in (values, places))
        return torch.return_types.max((one, other))


def module_mistakes(model: PreTrainedModel, whole: PreTrainedModel | None, sites: Sites) -> list[ModuleMistake]:
    """Every mistake known to attn that can be made in the modules of this model, beside attention's own arithmetic."""
    return [
        *mistakes_of_norms(sites),
        *mistakes_of_biases(sites),
        *mistakes_of_projections(sites),
        *mistakes_of_tables(model, sites),
        *mistakes_of_mlps(sites),
        *mistakes_of_experts(sites),
        *mistakes_of_embeddings(model, sites),
        *mistakes_of_logits(model, whole, sites),
    ]


_FEW = 8  # tokens of the pass that finds the sites
_MOST_LOGITS = 2**24  # numbers that come at once
_LONG = 512  # tokens, of more each layer gives its memory back
_NONE_MADE: Mistakes = {}


class ModelReference:
    """A model whose numbers are seen at stations, places in its pass such as q after rotary positions.

    It can run with mistakes made on purpose, and with its numbers rounded as in another precision.

    arguments  makes the arguments of the forward for one text

    Raises InputError for a model of an encoder and a decoder.
    """

    def __init__(self, loaded: LoadedModel, arguments: Any) -> None:
        if getattr(loaded.of_transformers.config, "is_encoder_decoder", False):
            name = loaded.about["model"]
            raise InputError(f"{name} has an encoder and a decoder", "bisect reads models of one stack")
        self.loaded, self.model, self.arguments = loaded, loaded.of_transformers, arguments
        self.places = loaded.module_places
        self._sites: Sites | None = None
        self._shapes: dict[Station, Shape] = {}
        self._late: LateStart | None = None
        self._has_own_code = False  # attention that calls a softmax itself
        self._module_mistakes: list[ModuleMistake] | None = None
        self._seen: dict[int, list[PlantedMistake]] = {}  # the mistakes in attention of every layer

    def shapes(self, ids: Sequence[int]) -> dict[Station, Shape]:
        """Every station, a place in the pass, with the heads (0 for none) and width of its numbers, by a short pass."""
        words = self._words()
        strange = next((at for at, number in enumerate(ids) if number >= words), None)
        if strange is not None:
            raise InputError(
                f"token {strange} has the id {ids[strange]}, and the model has {words:,} tokens",
                "is the dump of another model?",
            )
        if not self._shapes:
            found: dict[Station, Shape] = {}
            counts: Counter[Station] = Counter()

            def note(at: Station, x: np.ndarray) -> None:
                counts[at] += 1
                found[at] = Shape(x.shape[1] if x.ndim == 3 else 0, x.shape[-1])

            self._pass(ids[:_FEW], None, note, {})
            once = [at for at in found if counts[at] == 1]  # differential attention attends twice in a layer
            self._shapes = {at: found[at] for at in sorted(once, key=lambda at: at.order)}
        return self._shapes

    def _words(self) -> int:
        weight = getattr(self.model.get_input_embeddings(), "weight", None)
        known = self.model.config.get_text_config().vocab_size
        return int(weight.shape[0]) if isinstance(weight, torch.Tensor) and weight.ndim == 2 else int(known)

    def logit_rows(self, tokens: int) -> np.ndarray:
        """The positions, from 0, whose logits are compared: all, or evenly spaced ones, of at most 2**24 logits."""
        words = self.model.config.get_text_config().vocab_size
        count = max(1, min(tokens, _MOST_LOGITS // words))
        return np.unique(np.linspace(0, tokens - 1, count).round().astype(int))

    def mistakes(self, layer: int) -> list[PlantedMistake]:
        """The known mistakes that can be made on purpose in this layer: of attention, then of its other modules."""
        seen = self._seen.get(layer, [])
        names = {each.name for each in seen} if Station(layer, "heads") in self._shapes else set()
        return [*seen, *(each.planted for each in self._patches() if each.planted.name not in names)]

    def _note(self, layer: int, products: Products, rule: Rule, turning: Turning) -> None:
        self._seen[layer] = list(attention_mistakes(problem_of(self.model.config, layer, products, rule, turning)))

    def _patches(self) -> list[ModuleMistake]:
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
        given: Given | None = None,
        precision: str | None = None,
        draw: int = 0,
        mistakes: Mistakes | None = None,
    ) -> None:
        """One pass: `arrive` gets each wanted station (a place in the pass) with its numbers; it ends after the
        last.
        """
        if not wanted:
            return
        late = self._late_start(ids)
        layer = late.layer(set(wanted), given or {})
        given = late.given_from(layer, given or {})
        with late.skipping(layer):
            self._pass(ids, set(wanted), arrive, given, precision, draw, mistakes or {})

    def _late_start(self, ids: Sequence[int]) -> LateStart:
        if self._late is None:
            few = ids[:_FEW]

            def run_few(wanted: set[Station], given: Given, layer: int) -> dict[Station, np.ndarray]:
                found: dict[Station, np.ndarray] = {}
                assert self._late is not None
                with self._late.skipping(layer):
                    self._pass(few, wanted, lambda at, x: found.update({at: x.copy()}), given)
                return found

            self._late = LateStart(self._found(ids).blocks, run_few)
        return self._late

    def _found(self, ids: Sequence[int]) -> Sites:
        if self._sites is None:
            few = first_tokens(self.arguments(ids), _FEW)
            projections = find_projections(self.model, few)
            self._sites = find_sites(self.model, few, self.places, projections, TEXT_STREAMS)
            if not self._sites.blocks:
                raise InputError(
                    f"{self.loaded.about['model']} has no layers with attention to a text",
                    "choose another model with --model",
                )
        return self._sites

    def _pass(
        self,
        ids: Sequence[int],
        wanted: set[Station] | None,
        arrive: Arrive,
        given: Given,
        precision: str | None = None,
        draw: int = 0,
        mistakes: Mistakes = _NONE_MADE,
    ) -> None:
        """One pass; all stations where `wanted` is None."""
        sites = self._found(ids)
        rotations = RotationReader()
        wants_logits = self.loaded.generating is not None and (wanted is None or station("logits") in wanted)
        model = self.loaded.generating if wants_logits and self.loaded.generating is not None else self.model
        coming = Coming(wanted, arrive, given)
        with ExitStack() as stack:
            stack.enter_context(suppress(PassDone))
            patches = {each.planted: each for each in self._patches()} if mistakes else {}
            for mistake, layers in mistakes.items():
                if mistake in patches:
                    stack.enter_context(patches[mistake].made(layers))
            rounding = stack.enter_context(rounded(model, precision, draw)) if precision else None
            if rounding is not None:
                handles = [block.register_forward_hook(round_output(rounding)) for block in dict.fromkeys(sites.blocks)]
                stack.enter_context(hooked(*handles))
            if precision and draw:
                stack.enter_context(NearRoutes(precision))
            stack.enter_context(coming.watching(sites))
            if len(ids) > _LONG:
                handles = [block.register_forward_hook(_give_back) for block in dict.fromkeys(sites.blocks)]
                stack.enter_context(hooked(*handles))
            stack.enter_context(rotations.watching(self.places.attention))
            wrong: list[WrongAttention] = []
            for mistake, layers in mistakes.items():
                if mistake not in patches:
                    wrong.append(KernelMistake(self.model.config, mistake, layers))
                elif (attention := patches[mistake].attention) is not None:
                    wrong.append(attention(layers))
            ledger = Ledger(self.model, ALL, unlabelled(self.model), self.places)
            arguments = self.arguments(ids)
            attend = StationAttention(ledger, rotations, TEXT_STREAMS, coming.of_heads, rounding, wrong, draw)
            if not mistakes and precision is None:
                attend.note = self._note
            if self._has_own_code:
                attend.products = stack.enter_context(LastProduct())
            stack.enter_context(Capture(model, attend, stack=self.model))
            with torch.no_grad():
                if wants_logits:
                    rows = torch.from_numpy(self.logit_rows(len(ids)))
                    head = model.get_output_embeddings()
                    stack.enter_context(hooked(head.register_forward_pre_hook(partial(_of_rows, rows))))
                    coming.come(station("logits"), model(**arguments).logits[0])
                else:
                    model(**arguments)
        self._has_own_code |= attend.unseen


def _of_rows(rows: torch.Tensor, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return (args[0][:, rows.to(args[0].device)], *args[1:])


def _give_back(module: nn.Module, args: Any, output: Any) -> None:
    give_back()
