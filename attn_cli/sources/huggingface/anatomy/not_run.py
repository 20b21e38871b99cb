"""The attention modules that did not run in a forward pass, such as a vision tower without an image; their inputs."""

import inspect
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from attn_cli.model.blocks import Block
from attn_cli.sources.huggingface.anatomy.forward_arguments import arguments_of
from attn_cli.sources.huggingface.anatomy.head_counts import heads_of
from attn_cli.sources.huggingface.anatomy.hooks import hooked
from attn_cli.sources.huggingface.anatomy.module_places import ModulePlace, are_nested

# The arguments of models for images, audio and an encoder's output.
INPUT_NAMES = {
    "vision": ("pixel_values", "pixel_values_videos", "images", "flattened_patches"),
    "audio": ("input_features", "input_values", "audio_values", "audio_features"),
    "cross": ("encoder_hidden_states", "cross_attention_states"),
}


@dataclass
class PassRecord:
    """What ran in a pass: those of the watched `modules`, and the names of the model's `arguments` but None."""

    modules: set[nn.Module] = field(default_factory=set)
    arguments: set[str] = field(default_factory=set)


@contextmanager
def recording(model: nn.Module, modules: Collection[nn.Module]) -> Iterator[PassRecord]:
    """Context manager: yields a record that collects which of `modules` run, and the model's arguments."""
    record = PassRecord()

    def add_arguments(_: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        record.arguments |= {name for name, value in arguments_of(model, args, kwargs).items() if value is not None}

    handles = [model.register_forward_pre_hook(add_arguments, with_kwargs=True)]
    handles += [module.register_forward_pre_hook(lambda module, _: record.modules.add(module)) for module in modules]
    with hooked(*handles):
        yield record


def modules_not_run(
    model: PreTrainedModel, modules: Mapping[nn.Module, Collection[ModulePlace]], record: PassRecord
) -> Iterator[Block]:
    """A `Block` for each place of the attention `modules` that did not run in a recorded pass."""
    paths_run = [place.path for module in record.modules for place in modules[module]]
    for module, places in modules.items():
        if module in record.modules or any(are_nested(place.path, path) for place in places for path in paths_run):
            continue
        for place in places:
            needs = missing_input(model, place.stream, record.arguments)
            yield Block(
                place.layer, place.stream, place.path, "softmax attention", heads_of(module) or 0,
                f"did not run: needs {needs}" if needs else "did not run",
            )  # fmt: skip


def missing_input(model: PreTrainedModel, stream: str, arguments: Collection[str]) -> str:
    """The argument that a stack of the model ("vision", "cross" ...) needs to run, or two of them joined by "or"."""
    parameters = inspect.signature(model.forward).parameters
    towers = (*INPUT_NAMES["vision"], *INPUT_NAMES["audio"])
    names = {"resampler": towers, "cross": (*towers, *INPUT_NAMES["cross"])}.get(stream, INPUT_NAMES.get(stream, ()))
    own_names = [name for name in names if name in parameters]
    return "" if any(name in arguments for name in own_names) else " or ".join(own_names[:2])
