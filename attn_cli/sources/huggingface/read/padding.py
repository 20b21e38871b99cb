"""Texts of different lengths as one padded batch, models that read none, and one text without its padding."""

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel

from attn_cli.sources.huggingface.anatomy.configuration import configuration_of
from attn_cli.sources.huggingface.anatomy.forward_arguments import INPUT_ERRORS
from attn_cli.sources.huggingface.known_types import UNPADDED_ONLY, type_of
from attn_cli.sources.huggingface.rope.by_length import by_length

MASKS = {"attention_mask": "", "decoder_attention_mask": "decoder_"}  # the names of what each of them masks begin so
Run = Callable[[Mapping[str, Any]], dict[str, Any]]


def unpadded_only(model: PreTrainedModel) -> bool:
    """True where texts must not be padded: padding would change the model's attention, or can't be masked."""
    parameters = signature(model.forward).parameters
    if type_of(configuration_of(model)) in UNPADDED_ONLY or "attention_mask" not in parameters:
        return True
    return any(by_length(model))  # padding makes a text as long as the longest beside it


def padded(texts: Sequence[np.ndarray], filler: int, device: torch.device) -> dict[str, torch.Tensor]:
    """`input_ids` `[batch, longest]` of the texts' ids and, where lengths differ, their `attention_mask`."""
    rows = [torch.from_numpy(text) for text in texts]
    ids = pad_sequence(rows, batch_first=True, padding_value=filler)
    mask = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
    arguments = {"input_ids": ids.to(device)}
    if not mask.all():
        arguments["attention_mask"] = mask.to(device)
    return arguments


def without_padding(
    model: PreTrainedModel, arrays: Mapping[str, torch.Tensor], as_arguments: Run
) -> tuple[dict[str, torch.Tensor], tuple[str, ...]]:
    """The arrays less the tokens that a 2D mask hides, or all, where the model's output then differs; notes."""
    real = {name: torch.nonzero(arrays[name][0])[:, 0] for name in MASKS if hides_tokens(arrays.get(name))}
    if not real:
        return dict(arrays), ()
    shorter = {name: _cut(name, array, arrays, real) for name, array in arrays.items()}
    tries = [shorter]
    parameters = signature(model.forward).parameters
    for name, places in real.items():
        positions = f"{MASKS[name]}position_ids"
        if positions in parameters and positions not in arrays:
            tries.append({**tries[-1], positions: places[None]})
    last = real.get("decoder_attention_mask" if "decoder_input_ids" in arrays else "attention_mask")
    try:
        whole = _output(model, as_arguments(arrays))
        whole = whole if last is None or whole.ndim < 3 else whole[:, last.to(whole.device)]
    except INPUT_ERRORS:  # the pass that is shown says what is wrong
        return dict(arrays), ()
    before = int(next(iter(real.values()))[0])
    counted = f"positions count the padding: the text begins at {before}" if before else ""
    for tried in tries:
        if _difference(model, as_arguments(tried), whole) <= torch.finfo(whole.dtype).eps ** 0.5:
            return tried, () if tried is shorter else (counted or "positions count the padding",)
    return dict(arrays), (counted or "the padding changes what the model reads",)


def hides_tokens(mask: torch.Tensor | None) -> bool:
    """True for a mask `[1, n]` that hides some tokens, not all."""
    return mask is not None and mask.ndim == 2 and len(mask) == 1 and bool(mask.any()) and not bool(mask.all())


def _cut(
    name: str, array: torch.Tensor, arrays: Mapping[str, torch.Tensor], real: Mapping[str, torch.Tensor]
) -> torch.Tensor:
    mask = "decoder_attention_mask" if name.startswith("decoder_") else "attention_mask"
    masked = mask in real and array.shape[:2] == arrays[mask].shape and not name.startswith("encoder_")
    return array[:, real[mask]] if masked else array


@torch.no_grad()
def _output(model: PreTrainedModel, arguments: Mapping[str, Any]) -> torch.Tensor:
    outputs: Sequence[Any] = model(**arguments)
    return outputs[0]


def _difference(model: PreTrainedModel, arguments: Mapping[str, Any], whole: torch.Tensor) -> float:
    try:
        output = _output(model, arguments)
        difference = float((output - whole).float().norm() / whole.float().norm())
        return difference if difference == difference else float("inf")
    except INPUT_ERRORS:
        return float("inf")
