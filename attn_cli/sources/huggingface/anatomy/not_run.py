"""The attention modules that did not run in a forward pass, such as a vision tower without an image; what they need."""

import inspect
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from attn_cli.model_blocks import Block
from attn_cli.sources.huggingface.anatomy.forward_arguments import given_to
from attn_cli.sources.huggingface.anatomy.head_counts import heads_of
from attn_cli.sources.huggingface.anatomy.streams import Seat

# The arguments by which models are given pictures and sounds.
READS = {
    "vision": ("pixel_values", "pixel_values_videos", "images", "flattened_patches"),
    "audio": ("input_features", "input_values", "audio_values", "audio_features"),
    "cross": ("encoder_hidden_states", "cross_attention_states"),
}


@dataclass
class Run:
    """What happened in a forward pass: which of the watched modules ran, and which arguments the model was given."""

    modules: set[nn.Module] = field(default_factory=set)
    given: set[str] = field(default_factory=set)


@contextmanager
def noting(model: nn.Module, modules: Collection[nn.Module]) -> Iterator[Run]:
    """While open, the `Run` is told of every one of `modules` that runs."""
    run = Run()

    def reads(_: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        run.given |= {name for name, value in given_to(model, args, kwargs).items() if value is not None}

    hooks = [model.register_forward_pre_hook(reads, with_kwargs=True)]
    hooks += [module.register_forward_pre_hook(lambda module, _: run.modules.add(module)) for module in modules]
    try:
        yield run
    finally:
        for hook in hooks:
            hook.remove()


def idle_modules(model: PreTrainedModel, modules: Mapping[nn.Module, Collection[Seat]], run: Run) -> Iterator[Block]:
    """Every one of `modules` that did not run, once for each of its places.

    A module around or inside one that ran is none of them: its code is called without it, or for it.
    """
    ran = [seat.path for module in run.modules for seat in modules[module]]
    for module, seats in modules.items():
        if module in run.modules or any(_nested(seat.path, path) for seat in seats for path in ran):
            continue
        for seat in seats:
            needs = needed(model, seat.stream, run.given)
            yield Block(
                seat.layer, seat.stream, seat.path, "softmax attention", heads_of(module) or 0,
                f"did not run: needs {needs}" if needs else "did not run",
            )  # fmt: skip


def needed(model: PreTrainedModel, stream: str, given: Collection[str]) -> str:
    """The argument that a part of the model waits for, as far as its stream tells; "" if it was given or none is known.

    A resampler, and the cross attention of a model without an encoder for texts, wait for what a tower has made.
    """
    takes = inspect.signature(model.forward).parameters
    towers = (*READS["vision"], *READS["audio"])
    names = {"resampler": towers, "cross": (*towers, *READS["cross"])}.get(stream, READS.get(stream, ()))
    taken = [name for name in names if name in takes]
    return "" if any(name in given for name in taken) else " or ".join(taken[:2])


def _nested(one: str, other: str) -> bool:
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")
