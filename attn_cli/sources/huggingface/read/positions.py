"""The number of tokens that a model can read, the refusal of longer texts, and angles that depend on the length."""

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedConfig

from attn_cli.errors import LimitError
from attn_cli.prompt import Prompt
from attn_cli.sources.huggingface.anatomy.configuration import configuration_of, number_of, text_configuration
from attn_cli.sources.huggingface.anatomy.streams import in_tower

_NAMES = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_encoder_position_embeddings")
_OF_DECODER = ("max_target_positions", "max_decoder_position_embeddings")
_TABLE = re.compile(r"(^|[._])(wpe|pos|position|positions|positional)(_|\.|$)")
_OTHER_TABLE = re.compile(r"rel_|relative|(^|[._])[xywh]_pos|visual|entity|row|column")
_SPARE_ROWS = 4  # of a table before its first position
# in the code of tables that grow, and of positions that are cut to fit one
_UNLIMITED = re.compile(r"def make_weights?\b|position_ids = (position_ids\.clamp|torch\.min)\(")


def trained_count(config: PreTrainedConfig, *, decoder: bool = False) -> int | None:
    """The number of positions that a configuration states, for its model or the decoder; None where it states none."""
    config = text_configuration(config, decoder=decoder)
    names = (*_OF_DECODER, *_NAMES) if decoder else _NAMES
    count = next((value for name in names if (value := number_of(config, name) or 0) > 0), None)
    return None if count is None else max(count, *_scaled(getattr(config, "rope_parameters", None), count))


def _scaled(rope: Any, count: int) -> Iterator[int]:
    yield 0
    if isinstance(rope, dict):
        for rule in (rope, *(x for x in rope.values() if isinstance(x, dict))):
            yield int((rule.get("factor") or 0) * (rule.get("original_max_position_embeddings") or count))


def position_limit(model: nn.Module, *, decoder: bool = False) -> int | None:
    """The number of positions in a model's table of them; None where it has none, or one that grows."""
    stated = trained_count(configuration_of(model), decoder=decoder)
    if stated is None:
        return None
    for module_path, module in model.named_modules():
        for name, x in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)):
            path = f"{module_path}.{name}"
            is_other = not _TABLE.search(path) or _OTHER_TABLE.search(path) or in_tower(path)
            if x.ndim == 2 and 0 <= len(x) - stated <= _SPARE_ROWS and not is_other:
                owner = model.get_submodule(module_path.rpartition(".")[0])
                if any(_UNLIMITED.search(_source(type(part))) for part in (module, owner)):  # type: ignore[arg-type]
                    return None
                before = getattr(module, "padding_idx", None)
                return stated if before is None else min(stated, len(x) - before - 1)
    return None


def position_count(model: nn.Module, *, decoder: bool = False) -> int | None:
    """The positions in a model's table, or else those that it was trained for; None where neither is known."""
    limit = position_limit(model, decoder=decoder)
    return trained_count(configuration_of(model), decoder=decoder) if limit is None else limit


@cache
def _source(cls: type) -> str:
    try:
        return inspect.getsource(cls)
    except (OSError, TypeError):  # of code without a file
        return ""


def noted_beyond(prompt: Prompt, model: nn.Module) -> Prompt:
    """The prompt with a note if it has more tokens than the model, which has no table of positions, was trained for."""
    for decoder, tokens in ((False, prompt.tokens), (True, prompt.others.get("decoder", ()))):
        trained = trained_count(configuration_of(model), decoder=decoder)
        if trained is not None and any(token.id is not None for token in tokens[trained:]):
            note = f"beyond the {trained:,} positions the model was trained for"
            return prompt if note in prompt.warnings else replace(prompt, warnings=(*prompt.warnings, note))
    return prompt


def too_long(model: nn.Module, arguments: Mapping[str, Any], more: int = 0) -> LimitError | None:
    """The refusal of a failed forward's arguments if they and `more` tokens are more than the positions stated."""
    for name in ("input_ids", "decoder_input_ids"):
        stated, ids = trained_count(configuration_of(model), decoder=name != "input_ids"), arguments.get(name)
        if stated is not None and isinstance(ids, torch.Tensor) and (count := ids.shape[-1] + more) > stated:
            return _too_many(count, stated)
    return None


def check_tokens(count: int, limit: int | None) -> None:
    """Raise LimitError for a text of more tokens (`count`) than the model's positions (`limit`; None: no limit)."""
    if limit is not None and count > limit:
        raise _too_many(count, limit)


def _too_many(count: int, limit: int) -> LimitError:
    return LimitError(
        f"the text has {count:,} tokens, the model has {limit:,} positions",
        "shorten the text, or use a model with a longer context",
    )


def by_length(model: nn.Module) -> Iterator[tuple[nn.Module, dict[str, Any]]]:
    """The rotary modules of a model whose angles depend on the length, and how they are called."""
    for module in model.modules():
        types = getattr(module, "rope_type", None)
        for layer, kind in types.items() if isinstance(types, dict) else [(None, types)]:
            if isinstance(kind, str) and ("dynamic" in kind or kind == "longrope"):
                yield module, {} if layer is None else {"layer_type": layer}


@torch.no_grad()
def forget_length(model: nn.Module) -> None:
    """Undo what a longer text has left in a model's rotary modules, as in a model that was just loaded."""
    for module, how in by_length(model):
        device = next(module.buffers()).device
        module(torch.zeros(1, device=device), torch.zeros((1, 1), dtype=torch.long, device=device), **how)
