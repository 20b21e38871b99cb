"""The layers of an encoder as attention, residual stream and norm, kept in one pass."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call
from attn_cli.errors import LoadError
from attn_cli.model.mixing import MixedLayer
from attn_cli.prompt import Prompt
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.anatomy.module_places import ModulePlace
from attn_cli.sources.huggingface.capture.session import capture
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.residual.frozen_norm import FrozenNorm, freeze_norm
from attn_cli.sources.huggingface.residual.output_projection import Projections
from attn_cli.sources.huggingface.residual.residual_stream import BlockPass, ResidualStream, blocks_around

_STREAMS = frozenset({"self", "text", "encoder"})  # streams that read the text in an encoder
_HINT = "attn top --by output shows its layers one by one"


def mixed_layers(
    loaded: LoadedModel,
    prompt: Prompt,
    arguments: Mapping[str, Any],
    projections: Projections,
    places: Mapping[str, ModulePlace],
) -> list[MixedLayer]:
    """For each layer of an encoder its attention with W_O, its input, and the next norm."""
    calls: list[AttentionCall] = []
    chosen = {path: place for path, place in places.items() if place.stream in _STREAMS and place.block_path}
    modules = {}
    for path, place in chosen.items():
        module = projections.ungated(path, place.layer).module
        assert module is not None
        modules[module] = path
    norms: list[FrozenNorm | None] = []
    stream = ResidualStream(range(len(prompt.tokens)), len(prompt.tokens), lambda block: norms.append(_norm_of(block)))

    def visit(call: Call) -> None:
        if call.place.stream not in _STREAMS:
            return
        if not isinstance(call, AttentionCall):
            raise LoadError(f"layer {call.place.layer} ({call.place.name}) shows its weights alone", _HINT)
        _check_encoder(call)
        calls.append(call)

    with (
        capture(loaded.model, visit, selection=Selection(), texts=[prompt.tokens], others=[prompt.others]),
        stream.recording(loaded.model, blocks_around(loaded.model, chosen.values()), modules),
        torch.no_grad(),
    ):
        loaded.model(**arguments)
    attending = [(block, norm) for block, norm in zip(stream.blocks, norms, strict=True) if block.writes]
    if len(attending) != len(calls) or not calls:
        raise LoadError(f"{loaded.about['model']}: its blocks and its attention calls are not the same number", _HINT)
    layers = []
    for call, (block, norm) in zip(calls, attending, strict=True):
        with torch.no_grad():
            w_o = projections.ungated(call.place.name, call.place.layer).matrix(call.place.heads, call.h, call.e)
        call = replace(call, output=None, ingredients=replace(call.ingredients, projection=w_o))
        gain, centred = (None, False) if norm is None else (norm.gain[0], norm.centred)
        layers.append(MixedLayer(call, block.before, gain, centred))
    return layers


def _check_encoder(call: AttentionCall) -> None:
    if call.n == call.m > 1 and call.is_causal:
        raise LoadError(
            f"layer {call.place.layer} is a decoder's: the residual rule sends everything to the first token",
            "--by through is for encoders; attn parts says what an answer needs",
        )


def _norm_of(block: BlockPass) -> FrozenNorm | None:
    if not block.writes:
        return None
    try:
        block.check()
    except LoadError:
        (write,) = block.writes
        total = block.before + write.written
        for passage in block.passages:
            if passage.given is not None and block.within_rounding(passage.given - total, total.abs()):
                norm = freeze_norm(passage.module, passage.given.to(block.dtype))
                if norm is not None:
                    return norm
        raise
    if any(write.norm is not None for write in block.writes):
        raise LoadError(f"{block.path}: a norm is between W_O and the residual stream", _HINT)
    return None
