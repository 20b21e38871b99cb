"""The parts of a model whose attention is not seen: those that did not run, for want of input, and other mixers."""

import inspect
import re
from collections.abc import Collection, Iterator

from torch import nn
from transformers import PreTrainedModel

from attn_cli.errors import LoadError
from attn_cli.model.blocks import Block
from attn_cli.sources.huggingface.anatomy.configuration import heads_of, kind_of
from attn_cli.sources.huggingface.anatomy.module_places import ModulePlace, ModulePlaces, are_nested

# The arguments of models for images, audio and an encoder's output.
INPUT_NAMES = {
    "vision": ("pixel_values", "pixel_values_videos", "images", "flattened_patches"),
    "audio": ("input_features", "input_values", "audio_values", "audio_features"),
    "cross": ("encoder_hidden_states", "cross_attention_states"),
}


# Kinds of mixers by words in the class names of modules, the more specific first.
_KINDS = {
    "Mamba": re.compile(r"mamba|ssm", re.IGNORECASE),
    "linear attention": re.compile(r"delta_?net|linear_?att|lightning|kda|retention", re.IGNORECASE),
    "recurrence": re.compile(r"recurrent|rglru|rwkv|lstm", re.IGNORECASE),
    "convolution": re.compile(r"conv", re.IGNORECASE),
}


def unseen_blocks(places: ModulePlaces, ran: Collection[nn.Module], given: Collection[str]) -> Iterator[Block]:
    """Blocks without attention, then those whose attention did not run, in a pass with the arguments `given`."""
    yield from _blocks_without_attention(places)
    needs = {stream: missing_input(places.model, stream, given) for stream in {x.stream for x in places.attending}}
    paths_run = [place.path for module in ran for place in places.attention[module]]
    for module, of_module in places.attention.items():
        if module in ran or any(are_nested(place.path, path) for place in of_module for path in paths_run):
            continue
        for place in of_module:
            note = f"did not run: needs {needs[place.stream]}" if needs[place.stream] else "did not run"
            yield Block(place.layer, place.stream, place.path, "softmax attention", heads_of(module) or 0, note)


def missing_input(model: nn.Module, stream: str, arguments: Collection[str]) -> str:
    """The argument that a stack of the model ("vision", "cross" ...) needs to run, or two of them joined by "or"."""
    parameters = inspect.signature(model.forward).parameters
    towers = (*INPUT_NAMES["vision"], *INPUT_NAMES["audio"])
    names = {"resampler": towers, "cross": (*towers, *INPUT_NAMES["cross"])}.get(stream, INPUT_NAMES.get(stream, ()))
    own_names = [name for name in names if name in parameters]
    return "" if any(name in arguments for name in own_names) else " or ".join(own_names[:2])


def no_attention(model: PreTrainedModel, name: str) -> LoadError:
    """The error for a model without softmax attention; `name` is the model's."""
    return LoadError(
        f"{name} ({kind_of(model)}) has no softmax attention: it mixes tokens in another way",
        "there is nothing to show",
    )


def _blocks_without_attention(places: ModulePlaces) -> Iterator[Block]:
    """Every block without attention in a stack (list of blocks) in which other blocks have attention."""
    stacks: dict[str, ModulePlace] = {}
    for place in places.attending:
        stack = re.split(r"\.\d+(?:\.|$)", place.path)[0]
        if stack != place.path and place.stream != "cross":
            stacks.setdefault(stack, place)
    for stack, place in stacks.items():
        blocks = dict(places.model.get_submodule(stack).named_children())
        if len(blocks) != place.blocks:  # stages, which hold lists of blocks themselves
            continue
        inside = (other.path for other in places.attending if other.path.startswith(f"{stack}."))
        attending = {path.removeprefix(f"{stack}.").split(".")[0] for path in inside}
        for number, block in blocks.items():
            if number not in attending:
                yield Block(int(number), place.stream, f"{stack}.{number}", mixer_of(block))


def mixer_of(block: nn.Module) -> str:
    """What mixes a block's tokens, by its modules' class names, outer ones first: "Mamba", "convolution" ..."""
    names = [type(module).__name__ for module in block.modules() if type(module).__module__.split(".")[0] != "torch"]
    kinds = (kind for name in names for kind, words in _KINDS.items() if words.search(name))
    return next(kinds, "no attention")
