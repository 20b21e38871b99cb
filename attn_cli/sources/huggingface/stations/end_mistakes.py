"""The mistakes before a model's first layer and behind its last: embeddings, positions, the final norm, logits."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from attn_cli.kernel.lessons.mistakes.norms import norm_mistakes
from attn_cli.model.stations import BEFORE_LAYERS, PlantedMistake
from attn_cli.sources.huggingface.anatomy.configuration import text_configuration
from attn_cli.sources.huggingface.anatomy.hooks import hooked
from attn_cli.sources.huggingface.stations.changes import Layers, ModuleMistake, by_changes, remade, set_to
from attn_cli.sources.huggingface.stations.norm_mistakes import norm_of
from attn_cli.sources.huggingface.stations.sites import Sites


def mistakes_of_embeddings(model: PreTrainedModel, sites: Sites) -> Iterator[ModuleMistake]:
    """Mistakes before the first layer: a missing or needless factor on embeddings, tokens or positions off by 1 or
    2.
    """
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
    if isinstance(embedding, nn.Module):
        for step, words in (
            (1, "the first token came twice, as two BOS tokens: all others came one later"),
            (-1, "the first token, as a BOS token, was left out: all others came early"),
        ):
            yield from by_changes(
                f"tokens{step:+}", words, "residual_in", [(BEFORE_LAYERS, embedding, partial(_shifted, step))]
            )
    for path, module in model.named_modules():
        table = "weight" if isinstance(module, nn.Embedding) else "weights"  # of learned positions, of sines
        rows = getattr(module, table, None)
        is_of_positions = "position" in path.rpartition(".")[2] or path.endswith("wpe")
        if is_of_positions and isinstance(rows, torch.Tensor) and rows.shape[-1:] == (width,):
            yield from by_changes("positions-missing", "the position embeddings are missing", "residual_in",
                                [(BEFORE_LAYERS, module, lambda m, a, y: torch.zeros_like(y))])  # fmt: skip
            for step in (1, -1, 2):
                words = f"position embeddings are taken {abs(step)} {'too far on' if step > 0 else 'too far back'}"
                moved = rows.detach().roll(-step, 0)
                moved = nn.Parameter(moved, requires_grad=False) if isinstance(rows, nn.Parameter) else moved
                yield ModuleMistake(
                    PlantedMistake(f"positions{step:+}", words, "residual_in"),
                    partial(set_to, [(BEFORE_LAYERS, module, table, moved)]),
                )


def _shifted(step: int, module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
    if step > 0:
        return torch.cat([output[:, :1], output[:, :-1]], 1)
    return torch.cat([output[:, 1:], output[:, -1:]], 1)


def _through(
    weight: torch.Tensor, bias: torch.Tensor | None, module: nn.Module, args: Any, output: torch.Tensor
) -> torch.Tensor:
    return nn.functional.linear(args[0], weight, bias)


def _scaled_input(block: nn.Module, factor: float, layers: Layers) -> AbstractContextManager[None]:
    def scaled(module: nn.Module, args: Any, kwargs: Any) -> Any:
        if args:
            return (args[0] * factor, *args[1:]), kwargs
        return args, kwargs | {"hidden_states": kwargs["hidden_states"] * factor}

    return hooked(block.register_forward_pre_hook(scaled, with_kwargs=True))


def mistakes_of_logits(model: PreTrainedModel, whole: PreTrainedModel | None, sites: Sites) -> Iterator[ModuleMistake]:
    """Mistakes behind the last layer: of the final norm, of the LM head's weights, of the logits' softcap and scale."""
    if sites.final_norm is not None:
        norm = norm_of(sites.final_norm)
        for wrong in () if norm is None else norm_mistakes(norm, "the final norm"):
            name = f"final-{wrong.name}"
            yield from by_changes(
                name, wrong.words, "final_norm", [(BEFORE_LAYERS, sites.final_norm, partial(remade, wrong.make))]
            )
    head = None if whole is None else whole.get_output_embeddings()
    embedding = model.get_input_embeddings()
    if whole is None or not isinstance(head, nn.Linear) or not isinstance(embedding, nn.Embedding):
        return
    if head.weight.shape == embedding.weight.shape and head.weight.data_ptr() != embedding.weight.data_ptr():
        tied = partial(_through, embedding.weight, head.bias)
        yield from by_changes("head-tied", "the LM head is tied to the embedding, the model's has weights of its own",
                              "logits", [(BEFORE_LAYERS, head, tied)])  # fmt: skip
    yield from by_changes("logits-centred", "the LM head's weights were centred: every token's logits lack their mean",
                          "logits", [(BEFORE_LAYERS, head, _centred)])  # fmt: skip
    config = text_configuration(whole.config)
    for name, words in (("final_logit_softcapping", "the softcap of logits is missing"),):
        if getattr(config, name, None):
            yield ModuleMistake(
                PlantedMistake("logit-softcap-missing", words, "logits"),
                partial(set_to, [(BEFORE_LAYERS, config, name, None)]),
            )
    for name in ("logits_scaling", "logit_scale"):
        owner: Any = whole if isinstance(getattr(whole, name, None), int | float) else config
        value = getattr(owner, name, None)
        if isinstance(value, int | float) and value != 1:
            planted = PlantedMistake("logit-scale-missing", f"the factor {value:g} on logits is missing", "logits")
            yield ModuleMistake(planted, partial(set_to, [(BEFORE_LAYERS, owner, name, 1.0)]))


def _centred(module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
    return output - output.mean(-1, keepdim=True)
