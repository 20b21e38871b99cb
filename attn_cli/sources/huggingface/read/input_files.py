"""A model's inputs from a file of arrays, with which any model can be run, and as a batch with or without padding."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from attn_cli.errors import InputError
from attn_cli.prompt import Prompt, Token
from attn_cli.sources.files.array_file import named_arrays
from attn_cli.sources.files.parse_errors import parse_errors
from attn_cli.sources.files.paths import nonempty_file
from attn_cli.sources.files.raw import open_raw
from attn_cli.sources.huggingface.anatomy.configuration import configuration_of
from attn_cli.sources.huggingface.anatomy.devices import device_of_module, dtype_of_module
from attn_cli.sources.huggingface.anatomy.forward_arguments import ignored, takes_any
from attn_cli.sources.huggingface.anatomy.image_grid import image_grids, picture_read, tower_tokens, with_patches
from attn_cli.sources.huggingface.compat import one_token_longer
from attn_cli.sources.huggingface.known_types import UNPADDED_ONLY
from attn_cli.sources.huggingface.read.positions import by_length
from attn_cli.sources.huggingface.read.tokenize import labels
from attn_cli.text import excerpt, listed


@dataclass(frozen=True)
class ArrayPrompt(Prompt):
    """A prompt with arrays named as the model's arguments."""

    arrays: Mapping[str, Any] = field(default_factory=dict)

    def longer_arrays(self, model: PreTrainedModel, ids: Sequence[int]) -> dict[str, Any]:
        """The arrays of the text followed by the token ids `ids`, as the model's own `generate` continues them."""
        arrays: dict[str, Any] = {"use_cache": False, **self.arrays}
        read = arrays.pop("input_ids")  # [1, n]
        for number in ids:
            read = torch.cat([read, torch.full_like(read[:, :1], number)], 1)
            arrays = one_token_longer(model, arrays)
        arrays |= model.prepare_inputs_for_generation(read, is_first_iteration=True, **arrays)
        # what the model leaves to a part of its own goes on as it ends
        kept = {name: x if arrays.get(name) is None else arrays[name] for name, x in self.arrays.items()}
        return {name: self._as_long(x, len(ids)) for name, x in kept.items()}

    def _as_long(self, x: Any, more: int) -> Any:
        is_of_tokens = isinstance(x, torch.Tensor) and x.shape == self.arrays["input_ids"].shape
        return torch.cat([x, x[:, -1:].expand(-1, more)], 1) if is_of_tokens and not x.is_floating_point() else x


def read_inputs(file: str) -> dict[str, torch.Tensor]:
    """The arrays of an .npz or .safetensors file."""
    path, hint = nonempty_file(file), "save arrays named as the model's inputs, such as input_ids"
    if path.suffix not in (".npz", ".safetensors"):
        raise InputError(f"{file} is neither .npz nor .safetensors", hint)
    with parse_errors(excerpt(file), hint):
        raw = open_raw(str(path))
        arrays = {name: _tensor(read, f"{raw.label}:{excerpt(name, 60)}") for name, read in named_arrays(raw).items()}
    if not arrays:
        raise InputError(f"{file} holds no arrays", hint)
    return arrays


def _tensor(read: Callable[[str], np.ndarray], label: str) -> torch.Tensor:
    array = read(label)
    with parse_errors(label, "save numbers or bool"):
        # a copy of its own: aligned, in the machine's order of bytes, and writable
        return torch.from_numpy(array.astype(array.dtype.newbyteorder("=")))


def array_prompt(
    model: PreTrainedModel,
    text: str,
    tokens: Sequence[Token],
    arrays: Mapping[str, Any],
    *,
    frames: tuple[Token, ...] = (),
    images: int = 1,
    **more: Any,
) -> ArrayPrompt:
    """A prompt of arrays for one example, the tokens of its images labelled by their patches where these are known."""
    config = configuration_of(model)
    grids = image_grids(config, arrays)
    grids = grids if len(grids) == images else []  # an image in tiles has more
    tower = tower_tokens(config, arrays, grids[0]) if len(set(grids)) == 1 else ()
    labelled = with_patches(config, tokens, grids)
    has_map = any(token.row is not None for token in (*tower, *labelled))
    picture = picture_read(config, arrays, grids[0]) if has_map and len(grids) == 1 else None
    if not tokens:
        return ArrayPrompt(text, tower or frames, arrays=arrays, picture=picture, **more)
    others = dict(more.pop("others", {})) | ({"vision": tower} if tower else {})
    return ArrayPrompt(text, labelled, arrays=arrays, others=others, picture=picture, **more)


def as_arguments(model: PreTrainedModel, arrays: Mapping[str, Any], file: str) -> dict[str, Any]:
    """The arrays as arguments of the model's forward: on its device, floats in its dtype, single values as numbers."""
    parameters = signature(model.forward).parameters
    # a forward that takes any name doesn't take self: Python passes the model by it
    unknown = [name for name in arrays if name not in parameters and (name == "self" or not takes_any(model))]
    if unknown:
        raise InputError(f"{file}: the model takes no {unknown[0]}", f"it takes {', '.join(parameters)}")

    device, dtype = device_of_module(model), dtype_of_module(model)

    def fit(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        return x.item() if x.ndim == 0 else x.to(device, dtype if x.is_floating_point() else None)

    return {name: fit(x) for name, x in arrays.items()}


def _check(arrays: Mapping[str, torch.Tensor], file: str) -> None:
    ids = arrays.get("input_ids")
    for name, x in arrays.items():
        is_ids = name in ("input_ids", "decoder_input_ids")
        if is_ids and (x.is_floating_point() or x.is_complex() or x.ndim < 2):
            line = f"{file}: {name} has shape {tuple(x.shape)}, dtype {str(x.dtype).removeprefix('torch.')}"
            raise InputError(line, "ids of tokens are whole numbers, and one text is a row: [1, n]")
    if ids is None or ids.ndim != 2:
        return
    if ids.shape[0] > 1:
        raise InputError(f"{file} holds {ids.shape[0]} texts (rows of input_ids)", "save one in a file")
    for name in ("attention_mask", "token_type_ids"):
        if name in arrays and arrays[name].ndim == 2 and arrays[name].shape != ids.shape:
            shapes = f"{name} has shape {tuple(arrays[name].shape)}, input_ids {tuple(ids.shape)}"
            raise InputError(f"{file}: {shapes}", "one value for every token")


def file_prompt(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None, arrays: dict[str, torch.Tensor], file: str
) -> ArrayPrompt:
    """The prompt of one example in the arrays of an inputs file; without a text if the model reads none."""
    _check(arrays, file)
    for name, x in arrays.items():
        if name.endswith("attention_mask") and x.ndim == 4 and x.dtype == torch.bool:  # eager would add 0 and 1
            added = torch.zeros(x.shape).masked_fill(~x, torch.finfo(dtype_of_module(model)).min)
            arrays = {**arrays, name: added}
    tokens, decoder = (_tokens(tokenizer, arrays, beginning) for beginning in ("", "decoder_"))
    text = ""
    if tokenizer is not None:  # an id beyond its vocabulary has no text
        text = tokenizer.decode([token.id for token in tokens if 0 <= (token.id or 0) < len(tokenizer)])
    unread = ignored(model, arrays) if takes_any(model) else []
    notes = (f"the model ignores {listed(unread, 5)} of {file}",) if unread else ()
    return array_prompt(model, text, tokens, arrays, others={"decoder": decoder} if decoder else {}, warnings=notes)


def _tokens(
    tokenizer: PreTrainedTokenizerBase | None, arrays: Mapping[str, torch.Tensor], beginning: str
) -> tuple[Token, ...]:
    ids, mask = arrays.get(f"{beginning}input_ids"), arrays.get(f"{beginning}attention_mask")
    tokens = labels(tokenizer, ids[0].tolist()) if ids is not None and ids.ndim == 2 else ()
    shown = [token for token in tokens if mask is None or mask.ndim != 2 or bool(mask[0, token.index])]
    between = tokens[shown[0].index : shown[-1].index + 1] if shown else tokens
    return tuple(replace(token, index=index) for index, token in enumerate(between))


def unpadded_only(model: PreTrainedModel) -> bool:
    """True where texts must not be padded: padding would change the model's attention, or can't be masked."""
    parameters = signature(model.forward).parameters
    if configuration_of(model).model_type in UNPADDED_ONLY or "attention_mask" not in parameters:
        return True
    return any(by_length(model))  # padding makes a text as long as the longest beside it
