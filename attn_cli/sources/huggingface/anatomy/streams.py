"""Where an attention module sits in its model: block number, path, stream."""

import re
from typing import NamedTuple

from torch import nn

_ATTENTION = re.compile(r"attn|attention|mixer", re.IGNORECASE)
# What holds a softmax and is no attention, or holds attention and is none itself.
_OTHER = re.compile(
    r"(router|gate|gating|experts?|moe|block|mlp|ffn|indexer|connection|compressor|residual)$", re.IGNORECASE
)  # fmt: skip
_CROSS = re.compile(r"cross|encoder_attn|encdec|enc_dec|encoder_decoder", re.IGNORECASE)
# The parts of a model of several senses, by the name that its maker gave them.
_TOWERS = {
    "resampler": re.compile(r"qformer|resampler|perceiver|connector|projector", re.IGNORECASE),
    "vision": re.compile(r"vision|visual|image|video|^vit$|^sam|pixel", re.IGNORECASE),
    "audio": re.compile(r"audio|speech|acoustic|codec", re.IGNORECASE),
    "text": re.compile(r"^text|language", re.IGNORECASE),
}


class Seat(NamedTuple):
    """A module's block number, its path, its stream, how many blocks the stack has, and the block's own path.

    stream  "self" in a model of one stack; "encoder", "decoder" and "cross" where there are an encoder and a decoder;
            "vision", "audio", "text" and "resampler" where there are several senses
    """

    layer: int
    path: str
    stream: str
    blocks: int
    block: str = ""


class Seats:
    """The places of a model's modules."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.paths: dict[nn.Module, list[str]] = {}
        attentions = []
        for path, module in model.named_modules(remove_duplicate=False):
            if path:
                self.paths.setdefault(module, []).append(path)
                if looks_like_attention(path, module):
                    attentions.append(path)
        self.streams = Streams(model, attentions)
        self.known: dict[nn.Module, tuple[Seat, ...]] = {}

    def of(self, module: nn.Module) -> tuple[Seat, ...]:
        """The module's places, several where it is built into several blocks; none if it isn't the model's."""
        if module not in self.known:
            self.known[module] = tuple(self._seat(path) for path in self.paths.get(module, ()))
        return self.known[module]

    def _seat(self, path: str) -> Seat:
        layer, blocks, block = _block(self.model, path)
        return Seat(layer, path, self.streams.of(path), blocks, block)


def looks_like_attention(path: str, module: nn.Module) -> bool:
    """Whether the module calls itself attention, by its class or by the last part of its path."""
    return any(_ATTENTION.search(name) and not _OTHER.search(name) for name in _names(path, module))


def looks_like_something_else(path: str, module: nn.Module) -> bool:
    """Whether the module calls itself something whose softmax is no attention: a router, a gate, an indexer."""
    return any(_OTHER.search(name) for name in _names(path, module))


class Streams:
    """Names the streams of one model, told by the paths of its attention modules."""

    def __init__(self, model: nn.Module, attentions: list[str]) -> None:
        config = getattr(model, "config", None)
        parts = {part for path in attentions for part in path.split(".")}
        self.halves = bool(getattr(config, "is_encoder_decoder", False)) or {"encoder", "decoder"} <= parts
        towers = {self._tower(path) for path in attentions}
        self.several = bool(towers & {"vision", "audio"}) and len(towers) > 1

    def of(self, path: str) -> str:
        """The stream of the module at `path`."""
        tower = self._tower(path) if self.several else None
        if tower in ("vision", "audio", "resampler"):
            return tower
        if _CROSS.search(path.rpartition("decoder.")[2]):
            return "cross"
        if self.halves:
            return "decoder" if "decoder" in path else "encoder"
        return tower or "self"

    @staticmethod
    def _tower(path: str) -> str | None:
        """The sense that a part of the path above the blocks names."""
        above = re.split(r"\.\d+(?:\.|$)", path)[0].split(".")
        if len(above) == len(path.split(".")):  # no blocks: the last part is the attention itself
            above = above[:-1]
        return next((name for name, words in _TOWERS.items() if any(words.search(part) for part in above)), None)


def _names(path: str, module: nn.Module) -> tuple[str, str]:
    return type(module).__name__, path.rpartition(".")[2]


def _block(model: nn.Module, path: str) -> tuple[int, int, str]:
    """The number of the block that `path` leads into, the number of blocks in that stack, and the block's path.

    A block is an element of the first list on the path. Where these elements are stages that hold lists of equal
    blocks again, blocks are counted through all stages. A path without a list is block 0 of 1.
    """
    parts = path.split(".")
    lists = [i for i, part in enumerate(parts) if part.isdigit()]
    if not lists:
        return 0, 1, ""
    stack = model.get_submodule(".".join(parts[: lists[0]]))
    number, total = int(parts[lists[0]]), len(list(stack.children()))
    if len(lists) > 1:
        within = parts[lists[0] + 1 : lists[1]]
        inner = [_list_at(stage, within) for stage in stack.children()]
        kinds = {type(x) for stage in inner for x in stage}
        below = parts[lists[1] + 1 :]
        if len(kinds) == 1 and any(_ATTENTION.search(part) for part in below) and max(map(len, inner)) > 0:
            place = sum(len(stage) for stage in inner[:number]) + int(parts[lists[1]])
            return place, sum(map(len, inner)), ".".join(parts[: lists[1] + 1])
    return number, total, ".".join(parts[: lists[0] + 1])


def _list_at(module: nn.Module, parts: list[str]) -> list[nn.Module]:
    """The elements of the list at the end of `parts` below `module`; none if it isn't there."""
    for part in parts:
        module = getattr(module, part, None)  # type: ignore[assignment]
    return list(module.children()) if isinstance(module, nn.ModuleList | nn.Sequential) else []
