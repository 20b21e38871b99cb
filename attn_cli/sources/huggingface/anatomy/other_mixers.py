"""The blocks of a model that have no softmax attention, and what they have in its place."""

import re
from collections.abc import Iterator, Sequence

from torch import nn

from attn_cli.model_blocks import Block
from attn_cli.sources.huggingface.anatomy.streams import Seat

# What the classes of modules are called, the more telling first.
_KINDS = {
    "Mamba": re.compile(r"mamba|ssm", re.IGNORECASE),
    "linear attention": re.compile(r"delta_?net|linear_?att|lightning|kda|retention", re.IGNORECASE),
    "recurrence": re.compile(r"recurrent|rglru|rwkv|lstm", re.IGNORECASE),
    "convolution": re.compile(r"conv", re.IGNORECASE),
}


def blocks_without_attention(model: nn.Module, seats: Sequence[Seat]) -> Iterator[Block]:
    """Every block without a seat in a stack in which other blocks have one.

    seats  the places of all attention modules
    """
    stacks: dict[str, Seat] = {}
    for seat in seats:
        stack = re.split(r"\.\d+(?:\.|$)", seat.path)[0]
        if stack != seat.path and seat.stream != "cross":
            stacks.setdefault(stack, seat)
    for stack, seat in stacks.items():
        blocks = dict(model.get_submodule(stack).named_children())
        if len(blocks) != seat.blocks:  # stages, of which each holds blocks of its own
            continue
        attending = {other.path.removeprefix(f"{stack}.").split(".")[0] for other in seats
                     if other.path.startswith(f"{stack}.")}  # fmt: skip
        for number, block in blocks.items():
            if number not in attending:
                yield Block(int(number), seat.stream, f"{stack}.{number}", mixer_of(block))


def mixer_of(block: nn.Module) -> str:
    """What mixes the tokens of a block, by the names of the classes of its modules, outer ones first."""
    own = [type(module).__name__ for module in block.modules() if type(module).__module__.split(".")[0] != "torch"]
    found = (kind for name in own for kind, words in _KINDS.items() if words.search(name))
    return next(found, "no attention")
