"""Torch modules of other libraries as sources: built by name, read from arrays, or an image."""

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from inspect import Parameter, signature
from typing import Any

import torch
from torch import nn

from attn_cli.errors import InputError, LoadError, reason
from attn_cli.prompt import Prompt, Token
from attn_cli.sources.huggingface.anatomy.devices import device_of, dtype_of
from attn_cli.sources.huggingface.anatomy.image_grid import as_bytes, cells
from attn_cli.sources.huggingface.anatomy.softmax_in_code import refuse_compiled
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel, about_model
from attn_cli.sources.huggingface.load.origin import Origin, OriginOptions
from attn_cli.sources.huggingface.read.input_files import ArrayPrompt
from attn_cli.sources.huggingface.read.media import Media
from attn_cli.sources.huggingface.read.reader import PromptReader

Transform = Callable[[Any], torch.Tensor]
"""Makes of an image an array `[3, height, width]`."""
_NEEDED = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def build(package: str, wanted: str, options: OriginOptions) -> tuple[LoadedModel, Transform | None]:
    """The module `wanted` of timm or a Python package, ready to run, and its transform of images if it states one."""
    title = f"{package}:{wanted}"
    module, transform = _timm(wanted, title) if package == "timm" else (_factory(package, wanted, title), None)
    if not isinstance(module, nn.Module):
        raise InputError(f"{title} gives {type(module).__name__}, not a torch module", "name an nn.Module or a factory")
    refuse_compiled(module)
    dtype = dtype_of(options.dtype)
    module = module.to(dtype) if isinstance(dtype, torch.dtype) else module
    module = module.eval().to(device_of(options.device))
    return LoadedModel(module, None, about_model(module, name=title), Origin(title, title, options)), transform


def _timm(wanted: str, title: str) -> tuple[Any, Transform | None]:
    timm = _imported("timm", title)
    with _one_line(title, "timm.list_pretrained() lists names with weights, which come from the hub, or its cache"):
        model = timm.create_model(wanted, pretrained=True)
        settings = timm.data.resolve_model_data_config(model)
        return model, timm.data.create_transform(**settings, is_training=False)


def _factory(package: str, wanted: str, title: str) -> Any:
    sys.path[:] = ["", *sys.path, ""]  # the current folder comes first while the module is built, and last later
    try:
        found = getattr(_imported(package, title), wanted, None)
        if found is None:
            raise LoadError(f"{package} has no {wanted}", "name a module or a factory: package.module:name")
        if isinstance(found, nn.Module) or not callable(found):
            return found
        parameters = signature(found).parameters.values()
        if needed := [x.name for x in parameters if x.default is x.empty and x.kind in _NEEDED]:
            raise InputError(f"{title} wants {', '.join(needed)}", "name a factory that takes no arguments")
        with _one_line(title, "--debug shows the whole story"):
            return found()
    finally:
        sys.path.remove("")


def _imported(package: str, title: str) -> Any:
    with _one_line(title, "is the package installed, and its name right?"):
        return importlib.import_module(package)


@contextmanager
def _one_line(title: str, hint: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        name = type(error).__name__
        line = name if reason(error) == name else f"{name}: {reason(error)}"
        raise LoadError(f"{title} can't be built: {line}", hint) from error


class ModuleReader(PromptReader):
    """Reads another library's inputs: a file of its forward's arrays, or an image by a transform."""

    def __init__(
        self, loaded: LoadedModel, inputs_file: str | None, media: Media | None, transform: Transform | None
    ) -> None:
        super().__init__(loaded, inputs_file=inputs_file)
        self._media, self._transform, self._name = media, transform, self.about["model"]
        self._takes = [*signature(loaded.model.forward).parameters]
        self._inputs = f"-F FILE.npz with {', '.join(self._takes)}"
        if media is not None and transform is None:
            raise InputError(f"{self._name} states no transform for --image", f"give arrays: {self._inputs}")
        if media is not None and len(media.images) > 1:
            raise InputError(f"{self._name} reads one image at a time", "give one --image")

    def read(self, texts: Sequence[str], pair: str | None = None) -> list[Prompt]:
        """One prompt of the arrays in the inputs file, whatever the texts; without a file that of the image."""
        if self.arrays is not None:
            return super().read(texts, pair)
        if self._media is None or self._transform is None or pair is not None:
            hint = "--image FILE, or " if self._transform is not None else ""
            raise InputError(f"{self._name} reads no text by itself", f"give {hint}{self._inputs}")
        if any(texts):
            raise InputError(f"{self._name} reads no text beside --image", "leave out the text")
        pixels, patches = self._transform(self._media.images[0]), _patches(self.loaded.model)
        arrays = {self._takes[0]: pixels[None]}
        return [ArrayPrompt("", patches, files=self._media.files, arrays=arrays, picture=as_bytes(pixels))]


def _patches(model: nn.Module) -> tuple[Token, ...]:
    embedding = getattr(model, "patch_embed", None)
    grid, before = getattr(embedding, "grid_size", None), getattr(model, "num_prefix_tokens", 0)
    if not isinstance(grid, tuple) or len(grid) != 2:
        return ()
    lead = [Token(at, "[CLS]" if at == 0 else f"[REG{at - 1}]", special=True) for at in range(before)]
    return (*lead, *cells(grid, before))
