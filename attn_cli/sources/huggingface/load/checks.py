"""Layers and heads that a model doesn't have, refused by its configuration: before its weights are loaded."""

from collections.abc import Sequence

from torch import nn
from transformers import PreTrainedConfig

from attn_cli.errors import InputError
from attn_cli.selection import Selection, ranges
from attn_cli.sources.huggingface.anatomy.configuration import number_of, text_configuration
from attn_cli.sources.huggingface.anatomy.head_counts import heads_of
from attn_cli.sources.huggingface.anatomy.module_places import ModulePlaces
from attn_cli.sources.huggingface.load.model_classes import generating_class, model_class, saved_class
from attn_cli.sources.huggingface.load.skeleton import skeleton


def check_chosen_layers(layers: Sequence[int], config: PreTrainedConfig, name: str) -> None:
    """Raise InputError for a layer that no stack of a model of that configuration has.

    layers  the chosen ones; negative numbers count from the end
    name    the model's, for messages

    Only where the configuration's own count makes a number doubtful is the model built, without memory for weights, and
    its blocks are counted; one that can't be built so is asked again once it is loaded.
    """
    usual = number_of(text_configuration(config), "num_hidden_layers") or 0
    if all(-usual <= layer < usual for layer in layers):
        return
    check_layer_numbers(layers, _block_count(config), name)


def check_layer_numbers(layers: Sequence[int], blocks: int, name: str) -> None:
    """Raise InputError for a layer that is not among `blocks` of a stack; 0 blocks are an unknown number of them."""
    for layer in layers:
        if blocks and not -blocks <= layer < blocks:
            raise InputError(f"there is no layer {layer}", f"{name} has layers {ranges(range(blocks))}")


def check_chosen_heads(chosen: Selection, config: PreTrainedConfig) -> None:
    """Raise InputError for a head that no attention of a model of that configuration has.

    As with layers, the model is built without memory for weights where the configuration's own count makes a number
    doubtful; one with an attention that states no count of heads is asked again once it is loaded.
    """
    pairs = chosen.pairs or [(0, head) for head in chosen.heads or ()]
    usual = number_of(text_configuration(config), "num_attention_heads") or 0
    if all(-usual <= head < usual for _, head in pairs):
        return
    if pairs and (most := _head_count(config)):
        for layer, _ in pairs:
            chosen.pick_heads(most, layer, 0)  # 0 layers: a negative number stays as it was typed


def _head_count(config: PreTrainedConfig) -> int:
    """The heads of the attention that has most, however the model is loaded; 0 where any of them is unknown."""
    kinds = dict.fromkeys([model_class(config), saved_class(config), generating_class(config)])
    try:
        modules = [module for kind in kinds if kind is not None for module in _places(kind, config).attention]
        counts = [heads_of(module) or _configured(module) for module in modules]
    except Exception:  # of any type: a model's own code runs, and loading it says what is wrong with it
        return 0
    return max((count or 0 for count in counts), default=0) if all(counts) else 0


def _configured(module: nn.Module) -> int:
    """The heads that the configuration of an attention states, where the module itself does not; 0 if neither does."""
    return number_of(getattr(module, "config", None), "num_attention_heads") or 0


def _block_count(config: PreTrainedConfig) -> int:
    """The blocks of the largest stack with attention, however the model is loaded; 0 where it can't be built."""
    kinds = dict.fromkeys([model_class(config), saved_class(config), generating_class(config)])
    try:
        return max(_blocks_of(kind, config) for kind in kinds if kind is not None)
    except Exception:  # of any type: a model's own code runs, and loading it says what is wrong with it
        return 0


def _blocks_of(kind: type, config: PreTrainedConfig) -> int:
    """The blocks of the largest stack of a model of class `kind`."""
    places = _places(kind, config)
    return max((place.blocks for module in places.attention for place in places.of(module)), default=0)


def _places(kind: type, config: PreTrainedConfig) -> ModulePlaces:
    """The modules of a model of class `kind` that is built without memory for weights."""
    return ModulePlaces(skeleton(kind, config))
