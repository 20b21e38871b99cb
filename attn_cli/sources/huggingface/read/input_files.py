"""A model's inputs from a file of arrays, with which any model can be run, and as a batch with or without padding."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from attn_cli.errors import InputError
from attn_cli.prompt import Prompt, Token
from attn_cli.sources.files.npy import npz_arrays
from attn_cli.sources.files.parse_errors import parse_errors
from attn_cli.sources.files.paths import nonempty_file
from attn_cli.sources.files.raw import open_raw
from attn_cli.sources.huggingface.anatomy.configuration import configuration_of, text_configuration
from attn_cli.sources.huggingface.anatomy.forward_arguments import ignored, takes_any
from attn_cli.sources.huggingface.anatomy.image_grid import image_grids, picture_read, tower_tokens, with_patches
from attn_cli.sources.huggingface.anatomy.parameters import device_of_module, dtype_of_module
from attn_cli.sources.huggingface.compat import one_token_longer, prefers_sdpa
from attn_cli.sources.huggingface.known_types import UNPADDED_ONLY, type_of
from attn_cli.sources.huggingface.read.positions import by_length
from attn_cli.sources.huggingface.read.tokenize import labels
from attn_cli.text import excerpt, listed


@dataclass(frozen=True)
class ArrayPrompt(Prompt):
    """A prompt with arrays named as the model's arguments."""

    arrays: Mapping[str, Any] = field(default_factory=dict)

    def first_arrays(self, model: PreTrainedModel, count: int) -> dict[str, Any]:
        """The arrays with those that grow with the text cut to the first `count` tokens; others as they are."""
        longer = self.longer_arrays(model, [0])
        return {name: _first(x, longer[name], count) for name, x in self.arrays.items()}

    def longer_arrays(self, model: PreTrainedModel, ids: Sequence[int]) -> dict[str, Any]:
        """The arrays of the text followed by the token ids `ids`, as the model's own `generate` continues them."""
        arrays: dict[str, Any] = {"use_cache": False, **self.arrays}
        read = arrays.pop("input_ids")  # [1, n]
        for number in ids:
            read = torch.cat([read, torch.full_like(read[:, :1], number)], 1)
            arrays = one_token_longer(model, arrays)
        arrays |= model.prepare_inputs_for_generation(read, is_first_iteration=True, **arrays)
        # what the model leaves to a part of its own goes on as it ends
        return {name: _as_long(x if arrays.get(name) is None else arrays[name], self.arrays["input_ids"], len(ids))
                for name, x in self.arrays.items()}  # fmt: skip


def _as_long(x: Any, read: torch.Tensor, more: int) -> Any:
    """Whole numbers or truth values of the tokens `read` with the last one repeated; others as they are."""
    is_of_tokens = isinstance(x, torch.Tensor) and x.shape == read.shape and not x.is_floating_point()
    return torch.cat([x, x[:, -1:].expand(-1, more)], 1) if is_of_tokens else x


def _first(x: Any, longer: Any, count: int) -> Any:
    """The array `x` cut to the length `count` in the axis in which `longer` is longer; `x` where there is none."""
    if not isinstance(x, torch.Tensor) or x.shape == longer.shape:
        return x
    axis = next(axis for axis, size in enumerate(x.shape) if size != longer.shape[axis])
    return x.narrow(axis, 0, count)


def read_inputs(file: str) -> dict[str, torch.Tensor]:
    """The arrays of an .npz or .safetensors file."""
    path = nonempty_file(file)
    with parse_errors(excerpt(file), "it holds arrays named as the model's inputs"):
        if path.suffix == ".safetensors":
            arrays = load_file(path)
        elif path.suffix == ".npz":
            raw = open_raw(str(path))
            arrays = {name: _tensor(read, f"{raw.label}:{excerpt(name, 60)}") for name, read in npz_arrays(raw).items()}
        else:
            raise InputError(f"{file} is neither .npz nor .safetensors", "save the model's inputs in one of them")
    if not arrays:
        raise InputError(f"{file} holds no arrays", "name them as the model's inputs, such as input_ids")
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
    parameters = inspect.signature(model.forward).parameters
    # a forward that takes any name doesn't take self: Python passes the model by it
    unknown = [name for name in arrays if name not in parameters and (name == "self" or not takes_any(model))]
    if unknown:
        raise InputError(f"{file}: the model takes no {unknown[0]}", f"it takes {', '.join(parameters)}")

    def fit(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        if x.ndim == 0:
            return x.item()
        return (
            x.to(device_of_module(model), dtype_of_module(model))
            if x.is_floating_point()
            else x.to(device_of_module(model))
        )

    return {name: fit(x) for name, x in arrays.items()}


def _check(arrays: Mapping[str, torch.Tensor], file: str) -> None:
    ids = arrays.get("input_ids")
    for name in ("input_ids", "decoder_input_ids"):
        if name in arrays and (arrays[name].is_floating_point() or arrays[name].is_complex()):
            dtype = str(arrays[name].dtype).removeprefix("torch.")
            raise InputError(f"{file}: {name} has dtype {dtype}", "ids of tokens are whole numbers")
        if name in arrays and arrays[name].ndim < 2:
            raise InputError(f"{file}: {name} has shape {tuple(arrays[name].shape)}", "one text is a row: [1, n]")
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
    masks = {name: x for name, x in arrays.items() if name.endswith("attention_mask") and x.ndim == 4}
    arrays = arrays | {name: _as_default(model, x) for name, x in masks.items() if x.dtype == torch.bool}
    numbers = [name for name, x in masks.items() if x.dtype != torch.bool and not x.is_floating_point()]
    notes = tuple(f"{name} is added to the scores: only one of bool hides" for name in numbers)
    tokens, decoder = (_tokens(tokenizer, arrays, beginning) for beginning in ("", "decoder_"))
    text = ""
    if tokenizer is not None:  # an id beyond its vocabulary has no text
        text = tokenizer.decode([token.id for token in tokens if 0 <= (token.id or 0) < len(tokenizer)])
    unread = ignored(model, arrays) if takes_any(model) else []
    notes += (f"the model ignores {listed(unread, 5)} of {file}",) if unread else ()
    return array_prompt(model, text, tokens, arrays, others={"decoder": decoder} if decoder else {}, warnings=notes)


def _as_default(model: PreTrainedModel, mask: torch.Tensor) -> torch.Tensor:
    """A mask of bool as numbers to add, if the model's default is SDPA: unlike eager attention, it hides False."""
    if not prefers_sdpa(model, text_configuration(configuration_of(model))):
        return mask
    return torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(dtype_of_module(model)).min)


def _tokens(
    tokenizer: PreTrainedTokenizerBase | None, arrays: Mapping[str, torch.Tensor], beginning: str
) -> tuple[Token, ...]:
    """The tokens of an encoder or decoder between the padding around them."""
    ids, mask = arrays.get(f"{beginning}input_ids"), arrays.get(f"{beginning}attention_mask")
    tokens = labels(tokenizer, ids[0].tolist()) if ids is not None and ids.ndim == 2 else ()
    shown = [token for token in tokens if mask is None or mask.ndim != 2 or bool(mask[0, token.index])]
    between = tokens[shown[0].index : shown[-1].index + 1] if shown else tokens
    return tuple(replace(token, index=index) for index, token in enumerate(between))


MASKS = {"attention_mask": "", "decoder_attention_mask": "decoder_"}  # the names of what each of them masks begin so


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


def hides_tokens(mask: torch.Tensor | None) -> bool:
    """True for a mask `[1, n]` that hides some tokens, not all."""
    return mask is not None and mask.ndim == 2 and len(mask) == 1 and bool(mask.any()) and not bool(mask.all())
