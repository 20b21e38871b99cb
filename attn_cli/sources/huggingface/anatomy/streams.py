"""Facts read from the names of a model's modules: which of them attend, and the stream that each belongs to."""

import re

from torch import nn
from transformers import PreTrainedModel

from attn_cli.sources.huggingface.anatomy.configuration import is_pair

_ATTENTION = re.compile(r"attn|attention|mixer", re.IGNORECASE)
# Modules with a softmax that is not attention, and modules that contain attention but are not attention themselves.
_OTHER = re.compile(
    r"(router|gate|gating|experts?|moe|block|mlp|ffn|indexer|connection|compressor|residual)$", re.IGNORECASE
)
_ROUTER = re.compile(r"(router|gate|gating|experts?|moe)$", re.IGNORECASE)
_CROSS = re.compile(r"cross|encoder_attn|encdec|enc_dec|encoder_decoder", re.IGNORECASE)
# The parts of a multimodal model, by words in their names.
_TOWERS = {
    "resampler": re.compile(r"qformer|resampler|perceiver|connector|projector", re.IGNORECASE),
    "vision": re.compile(r"vision|visual|image|video|^vit$|^sam|pixel|^vq_?model", re.IGNORECASE),
    "audio": re.compile(r"audio|speech|acoustic|codec", re.IGNORECASE),
    "text": re.compile(r"^text|language", re.IGNORECASE),
}
_IN_STACK = re.compile(r"(.*?)\.(\d+)(?:\.|$)")  # the path of a stack, and the number of a block in it
# Streams whose queries and keys are tokens of the text, and those that have tokens of their own.
TEXT_STREAMS = frozenset({"self", "text", "encoder"})
OWN_STREAMS = frozenset({"decoder", "vision", "audio"})


def names_attention(name: str) -> bool:
    """True if a part of a path, or a class, is named after attention."""
    return bool(_ATTENTION.search(name))


def looks_like_attention(path: str, module: nn.Module) -> bool:
    """True if the module is called attention, by its class or by the last part of its path."""
    return any(names_attention(name) and not _OTHER.search(name) for name in _names(path, module))


def in_tower(path: str) -> bool:
    """True for the path of a part that reads images or audio."""
    return any(_TOWERS[name].search(part) for name in ("vision", "audio", "resampler") for part in path.split("."))


def is_router(path: str, module: nn.Module) -> bool:
    """True if the module is named after a choice of experts (router, gate, experts), whose softmax is over these."""
    return any(_ROUTER.search(name) for name in _names(path, module))


def is_router_or_gate(path: str, module: nn.Module) -> bool:
    """True if the module is named after what has a softmax that is no attention: a router, a gate, an indexer ..."""
    return any(_OTHER.search(name) for name in _names(path, module))


class StreamNames:
    """Names the stream of each module by its path; further stacks of other libraries have their module's name."""

    def __init__(self, model: nn.Module, attention_paths: list[str]) -> None:
        self._is_pair = is_pair(model)
        # torch's own decoder layers call their cross attention so, and their other attention self_attn
        beside = {path.rpartition(".")[0] for path in attention_paths if path.endswith("self_attn")}
        self._cross = {
            path for path in attention_paths if path.endswith(".multihead_attn") and path.rpartition(".")[0] in beside
        }
        towers = {self._tower(path) for path in attention_paths}
        self.is_multimodal = bool(towers & {"vision", "audio"}) and len(towers) > 1
        groups: dict[str | None, list[str]] = {}
        for path in attention_paths:
            groups.setdefault(self._own_tower(path), []).append(path)
        # the towers with an encoder, and those of a model with an encoder whose decoder stands beside other attention
        self._pairs = {tower for tower, paths in groups.items() if _names_a_pair(paths)}
        names_a_pair = _names_a_pair(attention_paths)
        own = {tower: ["decoder" in path and not _is_cross(path) for path in paths] for tower, paths in groups.items()}
        self._decoders = {tower for tower, are_decoders in own.items() if names_a_pair and not all(are_decoders)}
        self._own_stacks = set() if isinstance(model, PreTrainedModel) else self._stacks_of_their_own(attention_paths)

    def _stacks_of_their_own(self, paths: list[str]) -> set[str]:
        """The stacks that number blocks like one before them in their stream, by their paths."""
        numbers: dict[str, dict[str, set[str]]] = {}  # of blocks, by stream and stack
        for path in paths:
            if numbered := _IN_STACK.match(path):
                of_stream = numbers.setdefault(self._by_name(path), {})
                of_stream.setdefault(numbered[1], set()).add(numbered[2])
        own = set()
        for stacks in numbers.values():
            taken: set[str] = set()
            for stack, blocks in stacks.items():
                if taken & blocks:
                    own.add(stack)
                else:
                    taken |= blocks
        return own

    def of(self, path: str) -> str:
        """The stream (stack) that the module at `path` is part of, such as "self", "encoder", "cross" or "vision"."""
        numbered = _IN_STACK.match(path)
        return numbered[1] if numbered and numbered[1] in self._own_stacks else self._by_name(path)

    def _by_name(self, path: str) -> str:
        tower = self._own_tower(path)
        if tower in ("vision", "audio", "resampler"):
            return tower
        if _is_cross(path) or path in self._cross:
            return "cross"
        if "decoder" in path and (self._is_pair or tower in self._decoders):
            return "decoder"
        return "encoder" if self._is_pair or tower in self._pairs else tower or "self"

    def _own_tower(self, path: str) -> str | None:
        return self._tower(path) if self.is_multimodal else None

    @staticmethod
    def _tower(path: str) -> str | None:
        above = re.split(r"\.\d+(?:\.|$)", path)[0].split(".")
        if len(above) == len(path.split(".")):  # no blocks: the last part is the attention itself
            above = above[:-1]
        return next((name for name, words in _TOWERS.items() if any(words.search(part) for part in above)), None)


def _names_a_pair(paths: list[str]) -> bool:
    return {"encoder", "decoder"} <= {part for path in paths for part in path.split(".")}


def _is_cross(path: str) -> bool:
    return bool(_CROSS.search(path.rpartition("decoder.")[2]))


def _names(path: str, module: nn.Module) -> tuple[str, str]:
    return type(module).__name__, path.rpartition(".")[2]
