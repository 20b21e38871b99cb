"""The mistakes in a model's other modules: norms, projections, MLPs, embeddings, the LM head; made by hooks."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn
from transformers import PreTrainedModel

from attn_cli.kernel.lessons.mistakes.norms import Norm, norm_mistakes
from attn_cli.sources.huggingface.anatomy.configuration import text_configuration
from attn_cli.sources.huggingface.anatomy.hooks import first_output, hooked
from attn_cli.sources.huggingface.residual.frozen_norm import freeze_norm
from attn_cli.sources.huggingface.stations.activations import ACTIVATIONS, activation_of
from attn_cli.sources.huggingface.stations.sites import Sites
from attn_cli.stations import PlantedMistake

Change = Callable[[nn.Module, Any, torch.Tensor], torch.Tensor]
"""Gets a module, its positional arguments and its output; returns the wrong output."""


class ModuleMistake(NamedTuple):
    """A mistake, with what makes it in the layers that are named; in all for None."""

    planted: PlantedMistake
    made: Callable[[Collection[int] | None], AbstractContextManager[None]]


def module_mistakes(model: PreTrainedModel, whole: PreTrainedModel | None, sites: Sites) -> list[ModuleMistake]:
    """Every mistake that is possible in the modules of a model; `whole` is the model with its head, if it has one."""
    found: list[ModuleMistake] = []
    ends = [] if sites.final_norm is None else [(-1, sites.final_norm)]
    before, behind = _each(sites, "norm"), _each(sites, "mlp_norm")
    found += _of_norms([*before, *behind, *ends], "normed", "every norm")
    found += _of_norms(before, "normed", "the norm before attention")
    found += _of_norms(behind, "mlp_normed", "the norm before the MLP")
    for kind, at in (("q_norm", "q"), ("k_norm", "k")):
        found += _of_norms(_each(sites, kind), at, f"the norm of {at}")
    found += _qk_norms(sites)
    found += _biases(sites)
    found += _projections(sites)
    found += _mlps(sites)
    found += _experts(sites)
    found += _embeddings(model, sites)
    found += _ends(model, whole, sites)
    return found


def _hooks(changes: Sequence[tuple[int, nn.Module, Change]], layers: Collection[int] | None) -> Any:
    """Context manager: these modules' outputs are changed, in the layers alone that are named."""

    def hook(change: Change, module: nn.Module, args: Any, output: Any) -> Any:
        made = change(module, args, first_output(output))
        return (made, *output[1:]) if isinstance(output, tuple) else made

    chosen = [(module, change) for layer, module, change in changes if layers is None or layer in layers or layer < 0]
    return hooked(*(module.register_forward_hook(partial(hook, change)) for module, change in chosen))


def _mistake(
    name: str, words: str, kind: str, changes: Sequence[tuple[int, nn.Module, Change]]
) -> Iterator[ModuleMistake]:
    if changes:
        yield ModuleMistake(PlantedMistake(name, words, kind), partial(_hooks, list(changes)))


def _each(sites: Sites, part: str) -> list[tuple[int, nn.Module]]:
    return [(layer, inner[part]) for layer, inner in enumerate(sites.inner) if part in inner]


def _norm_of(module: nn.Module) -> Norm | None:
    """A module as a norm; None for one that is none."""
    weight = getattr(module, "weight", None)
    sizes = [p.shape[-1] for p in module.parameters() if p.ndim == 1]
    if not sizes:
        return None
    x = torch.randn((4, sizes[0]), generator=torch.Generator().manual_seed(0)).to(next(module.parameters()))
    try:
        frozen = freeze_norm(module, x)
    except (RuntimeError, TypeError, ValueError, IndexError):
        return None
    if frozen is None:
        return None
    names = ("variance_epsilon", "eps", "epsilon", "norm_eps", "layer_norm_eps")
    epsilon = next(
        (float(getattr(module, name)) for name in names if isinstance(getattr(module, name, None), float)), 1e-6
    )
    centred = x - x.mean(-1, keepdim=True) if frozen.centred else x
    size = (centred.float().square().mean(-1, keepdim=True) + epsilon).sqrt()
    gain = (frozen.gain * size).mean(0)
    bias = frozen.bias if bool(frozen.bias.abs().max() > 0) else None
    return Norm(gain, bias, epsilon, frozen.centred, None if weight is None else weight.detach().float())


def _of_norms(modules: Sequence[tuple[int, nn.Module]], kind: str, where: str) -> Iterator[ModuleMistake]:
    """The mistakes of the register with these norms, each of a layer."""
    by_name: dict[tuple[str, str], list[tuple[int, nn.Module, Change]]] = {}
    for layer, module in modules:
        norm = _norm_of(module)
        for wrong in () if norm is None else norm_mistakes(norm, where):
            change = partial(_remade, wrong.make)
            by_name.setdefault((wrong.name, wrong.words), []).append((layer, module, change))
    for (name, words), changes in by_name.items():
        yield from _mistake(name, words, kind, changes)


def _remade(make: Callable[[Any], Any], module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
    made: torch.Tensor = make(args[0].float()).to(output.dtype)
    return made


def _given(module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
    given: torch.Tensor = args[0]
    return given


def _qk_norms(sites: Sites) -> Iterator[ModuleMistake]:
    changes = [(layer, module, _given) for part in ("q_norm", "k_norm") for layer, module in _each(sites, part)]
    yield from _mistake("qk-norm-missing", "the norms of q and k are missing", "q", changes)


def _without_bias(module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
    bias = module.bias
    assert isinstance(bias, torch.Tensor)
    return output - bias


def _biases(sites: Sites) -> Iterator[ModuleMistake]:
    """Biases left out: of q, k and v, of one of them, of W_O, of the MLP, of all."""
    biased = [
        (layer, module, part)
        for layer, parts in enumerate(sites.linear)
        for part, modules in parts.items()
        for module in modules
        if isinstance(getattr(module, "bias", None), torch.Tensor)
    ]
    places = {"qkv": ("q, k and v", "q_projected"), "w_o": ("W_O", "attention"), "mlp": ("the MLP", "mlp")}
    for part, (words, kind) in places.items():
        changes = [(layer, module, _without_bias) for layer, module, own in biased if own == part]
        noun = "bias" if part == "w_o" else "biases"
        yield from _mistake("bias-missing", f"the {noun} of {words} {'is' if part == 'w_o' else 'are'} missing", kind,
                            changes)  # fmt: skip
    if len({part for _, _, part in biased}) > 1:
        changes = [(layer, module, _without_bias) for layer, module, _ in biased]
        yield from _mistake("biases-missing", "all biases of linear layers are missing", "q_projected", changes)


def _projections(sites: Sites) -> Iterator[ModuleMistake]:
    """k and v in each other's place; a joint projection split in another order."""
    swapped: list[tuple[int, nn.Module, nn.Module]] = []
    joint: list[tuple[int, nn.Module]] = []
    for layer, parts in enumerate(sites.linear):
        modules = parts.get("qkv", [])
        if len(modules) == 3 and _shape(modules[1]) == _shape(modules[2]):
            swapped.append((layer, modules[1], modules[2]))
        if len(modules) == 1 and _width(modules[0]) % 3 == 0:
            joint.append((layer, modules[0]))
    if swapped:
        words = "k and v are in each other's place: q, k, v were split in another order"
        yield ModuleMistake(PlantedMistake("qkv-order", words, "q_projected"), partial(_exchanged, swapped))
    for order in ((0, 2, 1), (1, 0, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1)):
        named = ", ".join("qkv"[part] for part in order)
        yield from _mistake("qkv-order", f"the joint projection was split as {named}, it is q, k, v", "q_projected",
                            [(layer, module, partial(_thirds, order)) for layer, module in joint])  # fmt: skip
    for heads in sorted({heads for heads in sites.heads if heads > 1}):
        for words, by_head in (("head by head, it is q, k, v for all heads", True),
                               ("as q, k, v for all heads, it is head by head", False)):  # fmt: skip
            changes = [(layer, module, partial(_recut, heads, by_head)) for layer, module in joint]
            yield from _mistake("qkv-layout", f"the joint projection was split {words}", "q_projected", changes)


def _shape(module: nn.Module) -> tuple[int, ...]:
    weight = getattr(module, "weight", None)
    return tuple(weight.shape) if isinstance(weight, torch.Tensor) else ()


def _width(module: nn.Module) -> int:
    """The numbers that a linear module gives per token."""
    shape = _shape(module)
    return 1 if not shape else shape[0] if isinstance(module, nn.Linear) else shape[-1]


def _thirds(order: tuple[int, ...], module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
    parts = output.chunk(3, -1)
    return torch.cat([parts[order.index(part)] for part in range(3)], -1)


def _recut(heads: int, by_head: bool, module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
    """The output so that the model's own split gives what the wrong split would."""
    d = output.shape[-1] // (3 * heads)
    before = (heads, 3, d) if by_head else (3, heads, d)
    return output.reshape(*output.shape[:-1], *before).transpose(-3, -2).flatten(-3)


@contextmanager
def _exchanged(pairs: Sequence[tuple[int, nn.Module, nn.Module]], layers: Collection[int] | None) -> Iterator[None]:
    """Context manager: these pairs of modules compute in each other's place."""
    with ExitStack() as stack:
        for layer, one, other in pairs:
            if layers is None or layer in layers:
                handles = [
                    one.register_forward_hook(partial(_computed_by, type(other).forward, other)),
                    other.register_forward_hook(partial(_computed_by, type(one).forward, one)),
                ]
                stack.enter_context(hooked(*handles))
        yield


def _computed_by(forward: Any, instead: nn.Module, module: nn.Module, args: Any, output: Any) -> Any:
    return forward(instead, *args)


def _mlps(sites: Sites) -> Iterator[ModuleMistake]:
    """Another activation; gate and up in each other's place; the MLP or its gate missing."""
    right: dict[int, list[tuple[nn.Module, str]]] = {}
    for layer, modules in enumerate(sites.activations):
        right[layer] = [(module, name) for module in modules if (name := activation_of(module)) is not None]
    names = {name for pairs in right.values() for _, name in pairs}
    for other, of in ACTIVATIONS.items():
        changes = [(layer, module, partial(_remade, of)) for layer, pairs in right.items() for module, name in pairs
                   if name != other]  # fmt: skip
        if changes:
            words = f"the activation is {other}, the model's is {' or '.join(sorted(names - {other}))}"
            yield from _mistake("activation", words, "mlp", changes)
    pairs = []
    halves: list[tuple[int, nn.Module, Change]] = []
    for layer, parts in enumerate(sites.linear):
        modules = parts.get("mlp", [])
        if len(modules) == 3 and len({_shape(m) for m in modules[:2]}) == 1:
            pairs.append((layer, modules[0], modules[1]))
        elif len(modules) == 2 and _width(modules[0]) == 2 * _inputs(modules[1]):
            halves.append((layer, modules[0], _halves))
    words = "gate and up are in each other's place"
    if pairs:
        yield ModuleMistake(PlantedMistake("gate-up-swapped", words, "mlp"), partial(_exchanged, pairs))
    yield from _mistake("gate-up-swapped", words, "mlp", halves)


def _inputs(module: nn.Module) -> int:
    shape = _shape(module)
    return 0 if not shape else shape[-1] if isinstance(module, nn.Linear) else shape[0]


def _halves(module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
    return torch.cat(output.chunk(2, -1)[::-1], -1)


@contextmanager
def _set(values: Sequence[tuple[int, Any, str, Any]], layers: Collection[int] | None) -> Iterator[None]:
    """Context manager: these attributes of objects, each of a layer (-1 of none), have other values."""
    before = [(owner, name, getattr(owner, name)) for _, owner, name, _ in values]
    try:
        for layer, owner, name, value in values:
            if layers is None or layer in layers or layer < 0:
                setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


def _experts(sites: Sites) -> Iterator[ModuleMistake]:
    """Weights of experts not normalised, or normalised; another number of experts; factors left out."""
    normed: list[tuple[int, Any, str, Any]] = []
    fewer: list[tuple[int, Any, str, Any]] = []
    factors: dict[str, list[tuple[int, Any, str, Any]]] = {}
    for layer, block in enumerate(sites.blocks):
        for module in block.modules():
            if isinstance(getattr(module, "norm_topk_prob", None), bool):
                normed.append((layer, module, "norm_topk_prob", not module.norm_topk_prob))
            count = getattr(module, "top_k", None)
            if isinstance(count, int) and count > 1:
                fewer.append((layer, module, "top_k", count - 1))
            for name in ("residual_multiplier", "routed_scaling_factor"):
                value = getattr(module, name, None)
                if isinstance(value, int | float) and value != 1:
                    factors.setdefault(name, []).append((layer, module, name, 1.0))
    for name, words, values, kind in (
        ("experts-not-normalised", "the weights of a token's experts are normalised the other way about", normed,
         "mlp"),
        ("experts-fewer", "one expert too few was chosen for each token", fewer, "mlp"),
        ("residual-multiplier-missing", "the residual multiplier is missing", factors.get("residual_multiplier"),
         "residual_mid"),
        ("expert-factor-missing", "the factor on the experts' output is missing", factors.get("routed_scaling_factor"),
         "mlp"),
    ):  # fmt: skip
        if values:
            yield ModuleMistake(PlantedMistake(name, words, kind), partial(_set, values))


def _embeddings(model: PreTrainedModel, sites: Sites) -> Iterator[ModuleMistake]:
    """The embedding's scale missing or uninvited; learned positions missing or counted from elsewhere."""
    embedding = model.get_input_embeddings()
    width = sites.width
    first = sites.blocks[0]
    scale = sites.embedding_scale
    if isinstance(embedding, nn.Module) and scale and abs(scale - 1) > 1e-3:
        yield ModuleMistake(
            PlantedMistake("embedding-scale-missing", f"the embedding's scale {scale:.4g} is missing", "residual_in"),
            partial(_scaled_input, first, 1 / scale),
        )
    elif scale:
        yield ModuleMistake(
            PlantedMistake("embedding-scale-uninvited",
                           f"the embedding was scaled by sqrt({width}) without being requested", "residual_in"),
            partial(_scaled_input, first, float(width) ** 0.5),
        )  # fmt: skip
    for path, module in model.named_modules():
        if isinstance(module, nn.Embedding) and ("position" in path.rpartition(".")[2] or path.endswith("wpe")):
            yield from _mistake("positions-missing", "the position embeddings are missing", "residual_in",
                                [(-1, module, lambda m, a, y: torch.zeros_like(y))])  # fmt: skip
            for step in (1, -1, 2):
                words = f"position embeddings are taken {abs(step)} {'too far on' if step > 0 else 'too far back'}"
                moved = nn.Parameter(module.weight.detach().roll(-step, 0), requires_grad=False)
                yield ModuleMistake(PlantedMistake(f"positions{step:+}", words, "residual_in"),
                                    partial(_set, [(-1, module, "weight", moved)]))  # fmt: skip


def _through(
    weight: torch.Tensor, bias: torch.Tensor | None, module: nn.Module, args: Any, output: torch.Tensor
) -> torch.Tensor:
    return nn.functional.linear(args[0], weight, bias)


def _scaled_input(block: nn.Module, factor: float, layers: Collection[int] | None) -> AbstractContextManager[None]:
    def scaled(module: nn.Module, args: Any, kwargs: Any) -> Any:
        if args:
            return (args[0] * factor, *args[1:]), kwargs
        return args, kwargs | {"hidden_states": kwargs["hidden_states"] * factor}

    return hooked(block.register_forward_pre_hook(scaled, with_kwargs=True))


def _ends(model: PreTrainedModel, whole: PreTrainedModel | None, sites: Sites) -> Iterator[ModuleMistake]:
    """The final norm's mistakes; the LM head tied or not; the softcap and scale of logits."""
    if sites.final_norm is not None:
        norm = _norm_of(sites.final_norm)
        for wrong in () if norm is None else norm_mistakes(norm, "the final norm"):
            name = f"final-{wrong.name}"
            yield from _mistake(name, wrong.words, "final_norm",
                                [(-1, sites.final_norm, partial(_remade, wrong.make))])  # fmt: skip
    head = None if whole is None else whole.get_output_embeddings()
    embedding = model.get_input_embeddings()
    if whole is None or not isinstance(head, nn.Linear) or not isinstance(embedding, nn.Embedding):
        return
    if head.weight.shape == embedding.weight.shape and head.weight.data_ptr() != embedding.weight.data_ptr():
        yield from _mistake("head-tied", "the LM head is tied to the embedding, the model's has weights of its own",
                            "logits", [(-1, head, partial(_through, embedding.weight, head.bias))])  # fmt: skip
    config = text_configuration(whole.config)
    for name, words in (("final_logit_softcapping", "the softcap of logits is missing"),):
        if getattr(config, name, None):
            yield ModuleMistake(PlantedMistake("logit-softcap-missing", words, "logits"),
                                partial(_set, [(-1, config, name, None)]))  # fmt: skip
    for name in ("logits_scaling", "logit_scale"):
        owner: Any = whole if isinstance(getattr(whole, name, None), int | float) else config
        value = getattr(owner, name, None)
        if isinstance(value, int | float) and value != 1:
            yield ModuleMistake(PlantedMistake("logit-scale-missing", f"the factor {value:g} on logits is missing",
                                               "logits"), partial(_set, [(-1, owner, name, 1.0)]))  # fmt: skip
