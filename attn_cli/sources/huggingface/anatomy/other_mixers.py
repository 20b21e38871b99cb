"""The blocks of a model that have no softmax attention, and what they have in its place."""

import re
from collections.abc import Iterator, Sequence

from torch import nn
from transformers import PreTrainedModel

from attn_cli.errors import LoadError
from attn_cli.model.blocks import Block
from attn_cli.sources.huggingface.anatomy.configuration import kind_of
from attn_cli.sources.huggingface.anatomy.module_places import ModulePlace

# Kinds of mixers by words in the class names of modules, the more specific first.
_KINDS = {
    "Mamba": re.compile(r"mamba|ssm", re.IGNORECASE),
    "linear attention": re.compile(r"delta_?net|linear_?att|lightning|kda|retention", re.IGNORECASE),
    "recurrence": re.compile(r"recurrent|rglru|rwkv|lstm", re.IGNORECASE),
    "convolution": re.compile(r"conv", re.IGNORECASE),
}


def no_attention(model: PreTrainedModel, name: str) -> LoadError:
    """The error for a model without softmax attention; `name` is the model's."""
    return LoadError(
        f"{name} ({kind_of(model)}) has no softmax attention: it mixes tokens in another way",
        "there is nothing to show",
    )


def blocks_without_attention(model: nn.Module, places: Sequence[ModulePlace]) -> Iterator[Block]:
    """Every block without attention in a stack (list of blocks) in which other blocks have attention."""
    stacks: dict[str, ModulePlace] = {}
    for place in places:
        stack = re.split(r"\.\d+(?:\.|$)", place.path)[0]
        if stack != place.path and place.stream != "cross":
            stacks.setdefault(stack, place)
    for stack, place in stacks.items():
        blocks = dict(model.get_submodule(stack).named_children())
        if len(blocks) != place.blocks:  # stages, which hold lists of blocks themselves
            continue
        attending = {
            other.path.removeprefix(f"{stack}.").split(".")[0] for other in places if other.path.startswith(f"{stack}.")
        }
        for number, block in blocks.items():
            if number not in attending:
                yield Block(int(number), place.stream, f"{stack}.{number}", mixer_of(block))


def mixer_of(block: nn.Module) -> str:
    """What mixes a block's tokens, by its modules' class names, outer ones first: "Mamba", "convolution" ..."""
    names = [type(module).__name__ for module in block.modules() if type(module).__module__.split(".")[0] != "torch"]
    kinds = (kind for name in names for kind, words in _KINDS.items() if words.search(name))
    return next(kinds, "no attention")
