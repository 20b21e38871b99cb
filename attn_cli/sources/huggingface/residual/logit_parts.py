"""The direct parts of heads in a logit: W_O^h of each head's output, along the direction of the answer.

The direction is (W_U[t] - mean of all rows of W_U) times the gain of the final norm in the row that chooses token t,
with the norm's statistics held. All of it is found without names: W_O by what it is given, the final norm as what
stands between the last block and the unembedding, gains by calling the norms.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from attn_cli.arrays import to_numpy
from attn_cli.errors import LoadError
from attn_cli.model.intervention import HeadPlace, LogitParts
from attn_cli.sources.huggingface.anatomy.forward_arguments import first_float_input
from attn_cli.sources.huggingface.anatomy.hooks import hooked
from attn_cli.sources.huggingface.anatomy.module_places import ModulePlace
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.residual.frozen_norm import FrozenNorm, freeze_norm
from attn_cli.sources.huggingface.residual.output_projection import OutputProjection, Projections
from attn_cli.sources.huggingface.residual.residual_stream import AttentionWrite, ResidualStream, blocks_around, equal

TOLERANCE = 1e-3  # tolerance: of the sum of all parts, relative to the logit
_ANSWERING = frozenset({"self", "text", "decoder", "cross"})  # streams of the stack that answers
_HINT = "attn knock says what its heads do without it"


class _Unembedding:
    """The module that makes logits of vectors, and what it was given in a pass.

    given  `[r, d]`
    """

    def __init__(self, module: nn.Module, stream: ResidualStream) -> None:
        self.module, self.stream = module, stream
        self.given: torch.Tensor | None = None
        self.dtype = torch.float32

    def note(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Forward pre-hook: keep the chosen rows of what it is given."""
        given = first_float_input(args, kwargs)
        self.given = self.stream.rows_of(given)
        self.dtype = self.dtype if given is None else given.dtype

    def direction(self, y: torch.Tensor, token: int) -> tuple[torch.Tensor, float]:
        """Of one vector y `[d]`: the direction in which logit `token` less the mean logit grows `[d]`, and that logit.

        It is the gradient of a linear function: W_U[token] less the mean of W_U's rows, whatever module W_U is in.
        """
        with torch.enable_grad():
            x = y.to(self.dtype)[None, None].requires_grad_()
            logits = self.module(x)[0, 0].float()
            centred = logits[token] - logits.mean()
            (direction,) = torch.autograd.grad(centred, x)
        return direction[0, 0].float(), float(centred)


def logit_parts(
    loaded: LoadedModel,
    arguments: Mapping[str, Any],
    projections: Projections,
    places: Mapping[str, ModulePlace],
    targets: Sequence[tuple[int, int]],
    tokens: int,
) -> LogitParts:
    """What each head writes to the logits of `targets`, less the mean logit, and what all else does; summed over them.

    targets  pairs of a row and a token's id
    places  of the attention modules, by their paths in `loaded.model`
    tokens  how many tokens the stack that answers reads

    Raises LoadError, with the check that failed, where the logit is no plain sum of what heads write.
    """
    model, stack = loaded.generating, loaded.model
    module = None if model is None else model.get_output_embeddings()
    if model is None or module is None:
        raise LoadError(f"{loaded.about['model']} has no unembedding, so its heads have no direct logit", _HINT)
    chosen = {path: place for path, place in places.items() if place.stream in _ANSWERING and place.block_path}
    if not chosen:
        raise LoadError("no layer shows what its heads give before W_O", _HINT)
    stream = ResidualStream({row for row, _ in targets}, tokens)
    unembedding = _Unembedding(module, stream)
    blocks, modules = blocks_around(stack, chosen.values()), _modules(projections, chosen)
    with (
        stream.recording(model, blocks, modules),
        hooked(module.register_forward_pre_hook(unembedding.note, with_kwargs=True)),
        torch.no_grad(),
    ):
        model(**arguments)
    with torch.no_grad():
        norm = _final_norm(stream, unembedding)
        found = {path: (chosen[path], projections.found[path]) for path in chosen}
        return _added_up(stream, unembedding, norm, found, targets)


def _modules(projections: Projections, places: Mapping[str, ModulePlace]) -> dict[nn.Module, str]:
    """W_O of these attention modules, with their paths; LoadError for one that isn't found, or is that of several."""
    modules: dict[nn.Module, str] = {}
    for path, place in places.items():
        module = projections.at(path, place.layer).module
        assert module is not None
        if module in modules:
            raise LoadError(
                f"{path}: it shares its W_O with other layers, so their contributions can't be separated", _HINT
            )
        modules[module] = path
    return modules


def _final_norm(stream: ResidualStream, unembedding: _Unembedding) -> FrozenNorm | None:
    """The norm between the last block and the unembedding, its scale frozen; None where there is none."""
    if not stream.blocks or unembedding.given is None:
        raise LoadError("no block of the model gave a vector per token, so heads have no direct logit", _HINT)
    last = stream.blocks[-1].after
    assert last is not None
    if equal(last, unembedding.given):
        return None
    for passage in stream.outside:
        if equal(passage.given, last) and equal(passage.returned, unembedding.given):
            held = freeze_norm(passage.module, last.to(unembedding.dtype))
            if held is None:
                raise LoadError("the final norm is not a scale per dimension, so heads have no direct logit", _HINT)
            return held
    raise LoadError("more than a norm is between the last block and the unembedding", _HINT)


def _added_up(
    stream: ResidualStream,
    unembedding: _Unembedding,
    norm: FrozenNorm | None,
    places: Mapping[str, tuple[ModulePlace, OutputProjection]],
    targets: Sequence[tuple[int, int]],
) -> LogitParts:
    """The parts of all targets; LoadError where they don't add up to the logit.

    places  of attention modules by their paths, with their W_O
    """
    assert unembedding.given is not None
    heads: dict[HeadPlace, float] = {}
    directions: dict[HeadPlace, list[tuple[int, np.ndarray]]] = {}
    rest, logit = 0.0, 0.0
    for row, token in targets:
        at = stream.rows.index(row)
        direction, centred = unembedding.direction(unembedding.given[at], token)
        logit += centred

        def along(parts: torch.Tensor, at: int = at, direction: torch.Tensor = direction) -> torch.Tensor:
            """The contributions `[k]` to the logit of parts `[k, d]` of the stream in this row."""
            row_norm = None if norm is None else norm._replace(gain=norm.gain[at : at + 1])
            return (parts if row_norm is None else row_norm.of_parts(parts[None])[0]) @ direction

        parts = [along(stream.blocks[0].before[at : at + 1])]
        before_norm = direction if norm is None else norm._replace(gain=norm.gain[at : at + 1]).pulled_back(direction)
        for write, place, w_o in _writes(stream, places):
            of_heads, constant = _of_heads(write, w_o.heads, at)
            direct, sent = along(of_heads), _sent_along(write, w_o, at, before_norm)
            for head, part in enumerate(direct.tolist()):
                name = HeadPlace(place.layer, head, place.stream)
                heads[name] = heads.get(name, 0.0) + part
                if sent is not None:
                    directions.setdefault(name, []).append((row, to_numpy(sent[head])))
            parts += [direct, along(constant[None])]
        parts += [along(block.others[at : at + 1]) for block in stream.blocks]
        _, bias = unembedding.direction(torch.zeros_like(direction), token)
        constants = bias + (0.0 if norm is None else float(norm.bias @ direction))
        total = float(torch.cat(parts).double().sum()) + constants
        tolerance = max(TOLERANCE, 2 * torch.finfo(unembedding.dtype).eps)
        if not abs(total - centred) <= tolerance * abs(centred):
            raise LoadError(f"the contributions to the logit sum to {total:.5g}, not to {centred:.5g}", _HINT)
    rest = logit - sum(heads.values())
    return LogitParts(heads, rest, logit, {name: tuple(rows) for name, rows in directions.items()})


def _sent_along(write: AttentionWrite, w_o: OutputProjection, at: int, direction: torch.Tensor) -> torch.Tensor | None:
    """The direction `[h, e]` of each head's output along which the stream moves in this one; None behind a gate."""
    if w_o.how == "gate":
        return None
    if write.norm is not None:
        direction = write.norm._replace(gain=write.norm.gain[at : at + 1]).pulled_back(direction)
    matrix = w_o.matrix(range(w_o.heads), w_o.heads, write.heads.shape[-1] // w_o.heads)
    return (matrix.to(direction) @ direction).reshape(w_o.heads, -1)


def _writes(
    stream: ResidualStream, places: Mapping[str, tuple[ModulePlace, OutputProjection]]
) -> Iterator[tuple[AttentionWrite, ModulePlace, OutputProjection]]:
    """Attention's output after W_O, block by block, with its place and W_O."""
    for block in stream.blocks:
        for write in block.writes:
            yield write, *places[write.path]


def _of_heads(write: AttentionWrite, h: int, at: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Each head's output in the stream of one row `[h, d]`, and the constant part: biases of W_O and the norm.

    W_O(x in the head's slice) - W_O(0): the module is called.
    """
    given = write.heads[at].reshape(h, -1)  # [h, e]
    alone = torch.zeros((h + 1, h, given.shape[1]), device=given.device)
    alone[torch.arange(h), torch.arange(h)] = given
    output = write.module(alone.reshape(1, h + 1, -1).to(write.dtype))
    written = (output[0] if isinstance(output, tuple) else output)[0].float()
    parts, constant = written[:-1] - written[-1], written[-1]
    if write.norm is None:
        return parts, constant
    norm = write.norm._replace(gain=write.norm.gain[at : at + 1])
    return norm.of_parts(parts[None])[0], norm.of_parts(constant[None])[0] + norm.bias
