"""Building a torch module of another library from its name, with the transforms of its library."""

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any

import torch
from torch import nn

from attn_cli.errors import InputError, LoadError
from attn_cli.sources.huggingface.anatomy.softmax_in_code import refuse_compiled
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel, about_model
from attn_cli.sources.huggingface.load.device import device_of, dtype_of
from attn_cli.sources.huggingface.load.origin import Origin, OriginOptions
from attn_cli.sources.module_names import ModuleName


@dataclass(frozen=True)
class BuiltModule:
    """A module in evaluation mode on its device, and how its library makes its inputs.

    transform  an image to an array `[3, height, width]`; None where the library states none
    tokenize   texts to ids `[b, n]`; None for a module that reads no text
    """

    loaded: LoadedModel
    transform: Callable[[Any], torch.Tensor] | None = None
    tokenize: Callable[[Sequence[str]], torch.Tensor] | None = None
    token: Callable[[int], str] | None = None


def build(name: ModuleName, options: OriginOptions) -> BuiltModule:
    """The module of that name."""
    title = f"{name.package}:{name.wanted}"
    makers = {"timm": _timm, "open_clip": _open_clip}
    module, more = makers.get(name.package, _factory)(name, title)
    if not isinstance(module, nn.Module):
        raise InputError(f"{title} gives {type(module).__name__}, not a torch module", "name an nn.Module or a factory")
    refuse_compiled(module)
    dtype = dtype_of(options.dtype)
    if isinstance(dtype, torch.dtype):
        module = module.to(dtype)
    module = module.eval().to(device_of(options.device))
    loaded = LoadedModel(module, None, about_model(module, name=title), Origin(title, title, options))
    return BuiltModule(loaded, **more)


def _timm(name: ModuleName, title: str) -> tuple[Any, dict[str, Any]]:
    timm = _imported("timm", title)
    with _one_line(title, "timm.list_pretrained() lists names with weights, which come from the hub, or its cache"):
        model = timm.create_model(name.wanted, pretrained=True)
        settings = timm.data.resolve_model_data_config(model)
        return model, {"transform": timm.data.create_transform(**settings, is_training=False)}


def _open_clip(name: ModuleName, title: str) -> tuple[Any, dict[str, Any]]:
    open_clip = _imported("open_clip", title)
    model_name, tag = _weights_of_open_clip(name.wanted, title, open_clip)
    with _one_line(title, "open_clip.list_pretrained() lists names and tags: open_clip:NAME/TAG"):
        model, _, transform = open_clip.create_model_and_transforms(model_name, pretrained=tag, require_pretrained=True)
        tokenizer = open_clip.get_tokenizer(model_name)
        return model, {"transform": transform, "tokenize": tokenizer, "token": _words(tokenizer)}


def _weights_of_open_clip(wanted: str, title: str, open_clip: Any) -> tuple[str, str | None]:
    """The name of a model and the tag or file of its weights; no tag for a repository or folder, which hold them."""
    if wanted.startswith(("hf-hub:", "local-dir:")):
        return wanted, None
    model_name, _, tag = wanted.partition("/")
    if tag or model_name not in open_clip.list_models():
        return model_name, tag or None
    tags = open_clip.list_pretrained_tags_by_model(model_name)
    hint = f"open_clip lists {', '.join(tags)}" if tags else "open_clip lists none for it; a file of them does"
    raise InputError(f"{title} names no weights", f"{hint}: open_clip:{model_name}/{tags[0] if tags else 'FILE'}")


def _words(tokenizer: Any) -> Callable[[int], str] | None:
    decoder = getattr(tokenizer, "decoder", None)
    return None if decoder is None else lambda number: str(decoder[number]).removesuffix("</w>")


def _factory(name: ModuleName, title: str) -> tuple[Any, dict[str, Any]]:
    with _from_here():
        found = getattr(_imported(name.package, title), name.wanted, None)
        if found is None:
            raise LoadError(f"{name.package} has no {name.wanted}", "name a module or a factory: package.module:name")
        if isinstance(found, nn.Module) or not callable(found):
            return found, {}
        parameters = signature(found).parameters.values()
        needed = [x.name for x in parameters if x.default is x.empty and x.kind in _POSITIONAL]
        if needed:
            raise InputError(f"{title} wants {', '.join(needed)}", "name a factory that takes no arguments")
        with _one_line(title, "--debug shows the whole story"):
            return found(), {}


_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def _imported(package: str, title: str) -> Any:
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        raise LoadError(
            f"{title} needs the package {error.name}", f"pip install {error.name}, or is it a typo?"
        ) from error
    except Exception as error:  # of the imported code, of any type
        raise LoadError(
            f"{title}: importing {package} ended in {_told(error)}", "--debug shows the whole story"
        ) from error


@contextmanager
def _from_here() -> Iterator[None]:
    sys.path[:] = ["", *sys.path, *([] if "" in sys.path else [""])]
    try:
        yield
    finally:
        sys.path.remove("")


@contextmanager
def _one_line(title: str, hint: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise LoadError(f"{title} can't be built: {_told(error)}", hint) from error


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}".removesuffix(": ")
