"""A model's inputs from a file: any model can be run, whatever it reads."""

import inspect
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from attn_cli.errors import InputError
from attn_cli.prompt import Prompt, Token
from attn_cli.sources.huggingface.anatomy.forward_arguments import takes_any
from attn_cli.sources.huggingface.read.text_patches import with_patches
from attn_cli.sources.huggingface.read.tokenize import labels
from attn_cli.sources.huggingface.read.tower_patches import tower_tokens

PREFIX = "input."


@dataclass(frozen=True)
class Fed(Prompt):
    """A prompt that brings all that the model reads: its arrays, named as the arguments of the model's forward."""

    arrays: Mapping[str, Any] = field(default_factory=dict)


def read_inputs(file: str) -> dict[str, torch.Tensor]:
    """The named arrays of an .npz or .safetensors file; where some names begin with "input.", those, without it.

    Raises InputError for a file that is neither or can't be read.
    """
    path = Path(file).expanduser()
    try:
        if path.suffix == ".safetensors":
            arrays = load_file(path)
        elif path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                arrays = {name: torch.from_numpy(archive[name]) for name in archive.files}
        else:
            raise InputError(f"{file} is neither .npz nor .safetensors", "save the model's inputs in one of them")
    except (OSError, ValueError, TypeError, SafetensorError, zipfile.BadZipFile) as error:
        raise InputError(f"can't read {file}: {error}", "it holds arrays named as the model's inputs") from error
    marked = {name.removeprefix(PREFIX): x for name, x in arrays.items() if name.startswith(PREFIX)}
    found = marked or arrays
    if not found:
        raise InputError(f"{file} holds no arrays", "name them as the model's inputs, such as input_ids")
    return found


def fed(
    model: PreTrainedModel,
    text: str,
    tokens: Sequence[Token],
    arrays: Mapping[str, Any],
    *,
    frames: tuple[Token, ...] = (),
    **more: Any,
) -> Fed:
    """A prompt of arrays, the tokens of its picture labelled by their patches where these are known.

    tokens  those of the text; none for a model that reads none
    frames  those of a sound
    more    fields of a `Prompt`
    """
    tower = tower_tokens(model.config, arrays)
    if not tokens:
        return Fed(text, tower or frames, arrays=arrays, **more)
    others = dict(more.pop("others", {})) | ({"vision": tower} if tower else {})
    return Fed(text, with_patches(tokens, model, arrays), arrays=arrays, others=others, **more)


def fitted(model: PreTrainedModel, arrays: Mapping[str, Any], file: str) -> dict[str, Any]:
    """The arrays as arguments of the model's forward: on its device, floats in its precision, single values plain."""
    takes = inspect.signature(model.forward).parameters
    unknown = [name for name in arrays if name not in takes]
    if unknown and not takes_any(model):
        raise InputError(f"{file}: the model takes no {unknown[0]}", f"it takes {', '.join(takes)}")

    def fit(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        if x.ndim == 0:
            return x.item()
        return x.to(model.device, model.dtype) if x.is_floating_point() else x.to(model.device)

    return {name: fit(x) for name, x in arrays.items()}


def prompt(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None, arrays: dict[str, torch.Tensor], file: str
) -> Fed:
    """What the file holds, as a text and its tokens; those of a picture if the model reads no text.

    Raises InputError for more than one example: they would have to be padded alike to be told apart.
    """
    ids = arrays.get("input_ids")
    if ids is not None and ids.ndim == 2 and ids.shape[0] > 1:
        raise InputError(f"{file} holds {ids.shape[0]} texts (rows of input_ids)", "save one in a file")
    tokens = labels(tokenizer, ids)
    text = tokenizer.decode([token.id for token in tokens]) if tokenizer is not None and tokens else ""
    decoder = labels(tokenizer, arrays.get("decoder_input_ids"))
    return fed(model, text, tokens, arrays, others={"decoder": decoder} if decoder else {})
