"""The residual stream of chosen rows up to the logits: blocks, W_O of each, the final norm held, the unembedding."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import nn

from attn_cli.errors import LoadError
from attn_cli.sources.huggingface.anatomy.forward_arguments import first_float_input
from attn_cli.sources.huggingface.anatomy.hooks import hooked
from attn_cli.sources.huggingface.anatomy.module_places import ModulePlace
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.residual.frozen_norm import FrozenNorm, freeze_norm
from attn_cli.sources.huggingface.residual.output_projection import OutputProjection, Projections
from attn_cli.sources.huggingface.residual.residual_stream import AttentionWrite, ResidualStream, blocks_around, equal

HINT = "attn knock says what its heads do without it"
_ANSWERING = frozenset({"self", "text", "decoder", "cross"})  # streams of the stack that answers
_Of = TypeVar("_Of")


class Unembedding:
    """The module that makes logits of vectors (W_U), with its input `given` `[r, d]`, None before the pass."""

    def __init__(self, module: nn.Module, stream: ResidualStream) -> None:
        self.module, self.stream = module, stream
        self.given: torch.Tensor | None = None
        self.dtype = torch.float32

    def note(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Forward pre-hook: keep the chosen rows of the vectors that the module is given, and their dtype."""
        given = first_float_input(args, kwargs)
        self.given = self.stream.rows_of(given)
        self.dtype = self.dtype if given is None else given.dtype

    def direction(self, y: torch.Tensor, token: int) -> tuple[torch.Tensor, float]:
        """Of a vector `[d]`: the direction in which logit `token` less the mean grows, and that."""
        with torch.enable_grad():
            x = y.to(self.dtype)[None, None].requires_grad_()
            logits = self.module(x)[0, 0].float()
            centred = logits[token] - logits.mean()
            (direction,) = torch.autograd.grad(centred, x)
        return direction[0, 0].float(), float(centred)


@dataclass(frozen=True, eq=False)
class StreamToLogits:
    """The residual stream of some rows up to the logits; `norm`, if any, is frozen at the last block's output."""

    stream: ResidualStream
    unembedding: Unembedding
    norm: FrozenNorm | None
    places: Mapping[str, tuple[ModulePlace, OutputProjection]]

    @property
    def writes(self) -> Iterator[tuple[AttentionWrite, ModulePlace, OutputProjection]]:
        """What each attention module added to the stream, block by block, with its place in the model and its W_O."""
        for block in self.stream.blocks:
            for write in block.writes:
                yield write, *self.places[write.path]


def norm_at(norm: FrozenNorm | None, at: int) -> FrozenNorm | None:
    """A norm that is frozen at several vectors, for that with index `at` alone; None for None."""
    return None if norm is None else norm._replace(gain=norm.gain[at : at + 1])


def of_heads(write: AttentionWrite, h: int, at: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What each of h heads adds to the stream in row `at` `[h, d]`, and what constants add there `[1, d]`."""
    given = write.heads[at].reshape(h, -1)  # [h, e]
    alone = torch.zeros((h + 1, *given.shape), device=given.device)  # the last without any head
    alone[torch.arange(h), torch.arange(h)] = given
    output = write.module(alone.reshape(1, h + 1, -1).to(write.dtype))
    written = (output[0] if isinstance(output, tuple) else output)[0].float()
    parts, constant = written[:-1] - written[-1], written[-1:]
    norm = norm_at(write.norm, at)
    return (parts, constant) if norm is None else (norm.of_parts(parts[None])[0], norm.of_parts(constant) + norm.bias)


def run_to_logits(
    loaded: LoadedModel,
    projections: Projections,
    places: Mapping[str, ModulePlace],
    rows: Collection[int],
    tokens: int,
    answer: Callable[[StreamToLogits], _Of],
    run: Callable[[nn.Module], object],
) -> _Of:
    """What `answer` makes of the residual stream, up to the logits, in `rows` of the tokens that `run` runs."""
    model, stack = loaded.generating, loaded.model
    module = None if model is None else model.get_output_embeddings()
    if model is None or module is None:
        raise LoadError(f"{loaded.about['model']} has no unembedding, so its heads have no direct logit", HINT)
    chosen = {path: place for path, place in places.items() if place.stream in _ANSWERING and place.block_path}
    if not chosen:
        raise LoadError("no layer shows what its heads give before W_O", HINT)
    stream = ResidualStream(rows, tokens)
    unembedding = Unembedding(module, stream)
    blocks, modules = blocks_around(stack, chosen.values()), _modules(projections, chosen)
    with (
        stream.recording(model, blocks, modules),
        hooked(module.register_forward_pre_hook(unembedding.note, with_kwargs=True)),
        torch.no_grad(),
    ):
        run(model)
    with torch.no_grad():
        norm = _final_norm(stream, unembedding)
        found = {path: (chosen[path], projections.found[path]) for path in chosen}
        return answer(StreamToLogits(stream, unembedding, norm, found))


def _modules(projections: Projections, places: Mapping[str, ModulePlace]) -> dict[nn.Module, str]:
    modules: dict[nn.Module, str] = {}
    for path, place in places.items():
        module = projections.at(path, place.layer).module
        assert module is not None
        if module in modules:
            raise LoadError(
                f"{path}: it shares its W_O with other layers, so their contributions can't be separated", HINT
            )
        modules[module] = path
    return modules


def _final_norm(stream: ResidualStream, unembedding: Unembedding) -> FrozenNorm | None:
    if not stream.blocks or unembedding.given is None:
        raise LoadError("no block of the model gave a vector per token, so heads have no direct logit", HINT)
    last = stream.blocks[-1].after
    assert last is not None
    if equal(last, unembedding.given):
        return None
    for passage in stream.outside:
        if equal(passage.given, last) and equal(passage.returned, unembedding.given):
            held = freeze_norm(passage.module, last.to(unembedding.dtype))
            if held is None:
                raise LoadError("the final norm is not a scale per dimension, so heads have no direct logit", HINT)
            return held
    raise LoadError("more than a norm is between the last block and the unembedding", HINT)
