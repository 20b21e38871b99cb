"""Mistakes planted in tiny models of transformers by weights, attributes and buffers, and what their modules saw."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from attn_cli.sources.huggingface.anatomy.forward_arguments import first_float_input
from tests.bisect.plain_decoder import four_bits

Model = Any
Plant = Callable[[Model], bool]
"""Plants a mistake in a model; False where the model has no such place."""
Stations = dict[str, tuple[str, bool]]
"""The path of a module by the name of a station, and whether its numbers are what the module is given."""


def modules(model: Model, *names: str) -> Iterator[tuple[str, nn.Module]]:
    """The modules whose last name is one of these."""
    return ((path, module) for path, module in model.named_modules() if path.rpartition(".")[2] in names)


def attentions(model: Model) -> list[nn.Module]:
    """The modules that scale scores."""
    return [m for _, m in model.named_modules() if isinstance(getattr(m, "scaling", None), float)]


def each(found: list[Any], change: Callable[[Any], None]) -> bool:
    for one in found:
        change(one)
    return bool(found)


def scaled(power: float) -> Plant:
    def plant(model: Model) -> bool:
        return each(attentions(model), lambda m: setattr(m, "scaling", m.scaling**power))

    return plant


def of_width(model: Model) -> bool:
    heads = model.config.get_text_config().num_attention_heads
    found = [m for m in attentions(model) if isinstance(getattr(m, "head_dim", None), int)]
    found = [m for m in found if abs((heads * m.head_dim) ** -0.5 - m.scaling**2) > 1e-9]  # which is another mistake
    return heads > 1 and each(found, lambda m: setattr(m, "scaling", (heads * m.head_dim) ** -0.5))


def turned(change: Callable[[torch.Tensor], torch.Tensor]) -> Plant:
    def plant(model: Model) -> bool:
        found = [m for _, m in model.named_modules() if isinstance(getattr(m, "inv_freq", None), torch.Tensor)]
        return each(found, lambda m: m.inv_freq.copy_(change(m.inv_freq)))

    return plant


def other_base(x: torch.Tensor) -> torch.Tensor:
    return 500_000.0 ** (-torch.arange(len(x)) / len(x))


def gains(by: float, *names: str) -> Plant:
    def plant(model: Model) -> bool:
        found = [m for _, m in modules(model, *names) if isinstance(getattr(m, "weight", None), torch.Tensor)]
        return each(found, lambda m: m.weight.data.add_(by))

    return plant


NORMS = ("input_layernorm", "post_attention_layernorm", "norm", "ln_1", "ln_2", "ln_f", "final_layer_norm")


def plus_one(model: Model) -> bool:
    """1 added to gains, or taken away where the model adds it itself."""
    adds = any("1.0 + self.weight" in _source(m) or "1 + self.weight" in _source(m) for _, m in modules(model, *NORMS))
    return gains(-1.0 if adds else 1.0, *NORMS)(model)


def _source(module: nn.Module) -> str:
    import inspect

    try:
        return inspect.getsource(type(module))
    except (OSError, TypeError):
        return ""


def without_biases(*names: str) -> Plant:
    def plant(model: Model) -> bool:
        found = [m for _, m in modules(model, *names) if isinstance(getattr(m, "bias", None), torch.Tensor)]
        return each(found, lambda m: m.bias.data.zero_())

    return plant


def exchanged(one: str, other: str) -> Plant:
    def plant(model: Model) -> bool:
        found = [m for _, m in model.named_modules()
                 if isinstance(getattr(m, one, None), nn.Linear) and isinstance(getattr(m, other, None), nn.Linear)
                 and getattr(m, one).weight.shape == getattr(m, other).weight.shape]  # fmt: skip

        def swap(m: Any) -> None:
            first, second = getattr(m, one), getattr(m, other)
            for name in ("weight", "bias"):
                a, b = getattr(first, name), getattr(second, name)
                if a is not None and b is not None:
                    a.data, b.data = b.data.clone(), a.data.clone()

        return each(found, swap)

    return plant


class Quick(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(1.702 * x)


def other_activation(model: Model) -> bool:
    found = [(m, name) for _, m in model.named_modules() for name in ("act_fn", "act", "activation_fn")
             if isinstance(getattr(m, name, None), nn.Module)]  # fmt: skip
    return each(found, lambda pair: setattr(*pair, Quick()))


def identity(*names: str) -> Plant:
    def plant(model: Model) -> bool:
        found = [(m, name) for _, m in model.named_modules() for name in names
                 if isinstance(getattr(m, name, None), nn.Module)]  # fmt: skip
        return each(found, lambda pair: setattr(*pair, nn.Identity()))

    return plant


def no_final_norm(model: Model) -> bool:
    stack = getattr(model, "model", None) or getattr(model, "transformer", None)
    for name in ("norm", "ln_f", "final_layernorm"):
        if stack is not None and isinstance(getattr(stack, name, None), nn.Module):
            setattr(stack, name, nn.Identity())
            return True
    return False


def tied(model: Model) -> bool:
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    if (
        not isinstance(head, nn.Linear)
        or head.weight is embedding.weight
        or head.weight.shape != embedding.weight.shape
    ):
        return False
    head.weight = nn.Parameter(embedding.weight.data.clone())
    return True


def without(name: str) -> Plant:
    def plant(model: Model) -> bool:
        found = [m for m in (*model.modules(), model.config.get_text_config()) if getattr(m, name, None)]
        return each(found, lambda m: setattr(m, name, None))

    return plant


def unscaled_embedding(model: Model) -> bool:
    embedding = model.get_input_embeddings()
    scale = getattr(embedding, "embed_scale", None)
    if not isinstance(scale, torch.Tensor) or float(scale) == 1:
        return False
    embedding.embed_scale = torch.ones_like(scale)
    return True


def joined_by_reshape(model: Model) -> bool:
    heads = model.config.get_text_config().num_attention_heads

    def hook(m: nn.Module, args: Any) -> Any:
        x = args[0]
        b, n, w = x.shape
        return (x.reshape(b, n, heads, w // heads).transpose(1, 2).reshape(b, n, w),)

    found = [m for path, m in modules(model, "o_proj", "out_proj", "dense")
             if isinstance(m, nn.Linear) and "att" in path.split(".")[-2]]  # fmt: skip
    found = [m for m in found if m.in_features % heads == 0 and heads > 1]
    return each(found, lambda m: m.register_forward_pre_hook(hook))


# Name in the register, and how it is planted.
PLANTS: dict[str, tuple[str, Plant]] = {
    "scale missing": ("scale-missing", scaled(0.0)),
    "scale twice": ("scale-twice", scaled(2.0)),
    "scale of width": ("scale-of-width", of_width),
    "rotary missing": ("rotary-missing", turned(torch.zeros_like)),
    "rotary base": ("rotary-base", turned(other_base)),
    "rotary backwards": ("rotary-backwards", turned(lambda x: -x)),
    "gains plus one": ("norm-plus-one", plus_one),
    "biases of qkv": ("bias-missing", without_biases("q_proj", "k_proj", "v_proj", "c_attn", "query_key_value")),
    "bias of W_O": ("bias-missing", without_biases("o_proj", "out_proj")),
    "k and v": ("qkv-order", exchanged("k_proj", "v_proj")),
    "gate and up": ("gate-up-swapped", exchanged("gate_proj", "up_proj")),
    "activation": ("activation", other_activation),
    "qk norm": ("qk-norm-missing", identity("q_norm", "k_norm")),
    "final norm": ("final-norm-missing", no_final_norm),
    "tied head": ("head-tied", tied),
    "softcap": ("softcap-missing", without("attn_logit_softcapping")),
    "logit softcap": ("logit-softcap-missing", without("final_logit_softcapping")),
    "embedding scale": ("embedding-scale-missing", unscaled_embedding),
    "heads joined": ("heads-joined-by-reshape", joined_by_reshape),
}
PASS_PLANTS = ("mask missing", "diagonal", "positions")
"""Mistakes in what the pass is given: they are made by `seen`."""
PASS_NAMES = {"mask missing": "mask-missing", "diagonal": "causal-one-ahead", "positions": "rotary-positions+1"}


def quantised(model: Model) -> Model:
    """The model with its matrices in 4 bits."""
    for p in model.parameters():
        if p.ndim == 2:
            p.data = torch.from_numpy(four_bits(p.data.numpy())).clone()
    return model


@torch.no_grad()
def seen(
    model: Model, stations: Stations, ids: np.ndarray, plant: str = "", precision: str = "float32", pads: int = 0
) -> dict[str, np.ndarray]:
    """What the modules at these stations returned or were given, by the stations' names, in the order of the pass.

    pads  tokens of padding before the text, of which nothing is kept
    """
    found: dict[str, np.ndarray] = {}

    def note(name: str, x: Any) -> None:
        x = x[0] if isinstance(x, tuple) else x
        if isinstance(x, torch.Tensor) and x.ndim == 3 and x.shape[:2] == (1, len(ids) + pads):
            found.setdefault(name, x[0, pads:].float().numpy().copy())

    handles = []
    for name, (path, is_given) in stations.items():
        module = model.get_submodule(path)
        if is_given:
            hook: Any = lambda m, a, kw, at=name: note(at, first_float_input(a, kw))  # noqa: E731
            handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))
        else:
            handles.append(module.register_forward_hook(lambda m, a, y, at=name: note(at, y)))
    arguments: dict[str, Any] = {"input_ids": torch.from_numpy(ids)[None], "use_cache": False}
    if precision in ("bfloat16", "float16"):
        model = model.to(getattr(torch, precision))
    n = len(ids)
    if pads:
        padded = np.concatenate([ids[:pads], ids])
        arguments |= {"input_ids": torch.from_numpy(padded)[None],
                      "attention_mask": (torch.arange(n + pads) >= pads).long()[None],
                      "position_ids": (torch.arange(n + pads) - pads).clamp(min=0)[None]}  # fmt: skip
    if plant in ("mask missing", "diagonal"):
        lowest = torch.finfo(model.dtype).min
        allowed = torch.ones(n, n, dtype=torch.bool) if plant == "mask missing" else torch.ones(n, n).tril(1).bool()
        arguments["attention_mask"] = torch.where(allowed, 0.0, lowest).to(model.dtype)[None, None]
    if plant == "positions":
        arguments["position_ids"] = torch.arange(1, n + 1)[None]
    logits = model(**arguments).logits
    found["logits"] = logits[0, pads:].float().numpy()
    for handle in handles:
        handle.remove()
    return found


def copied(model: Model) -> Model:
    return copy.deepcopy(model)
