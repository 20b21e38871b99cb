"""Torch modules of other libraries as sources: built by name, read from arrays, or an image and a text."""

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from inspect import Parameter, signature
from typing import Any

import torch
from torch import nn

from attn_cli.errors import InputError, LoadError
from attn_cli.prompt import Prompt, Token
from attn_cli.sources.huggingface.anatomy.image_grid import cells, in_grey
from attn_cli.sources.huggingface.anatomy.softmax_in_code import refuse_compiled
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel, about_model
from attn_cli.sources.huggingface.load.device import device_of, dtype_of
from attn_cli.sources.huggingface.load.origin import Origin, OriginOptions
from attn_cli.sources.huggingface.read.cuts import picture_notes
from attn_cli.sources.huggingface.read.input_files import ArrayPrompt
from attn_cli.sources.huggingface.read.media import Media
from attn_cli.sources.huggingface.read.reader import PromptReader
from attn_cli.sources.module_names import ModuleName


def build(name: ModuleName, options: OriginOptions) -> tuple[LoadedModel, dict[str, Any]]:
    """The module of that name, in evaluation mode on its device, and its transforms, for `ModuleReader`."""
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
    return loaded, more


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


class ModuleReader(PromptReader):
    """Reads another library's inputs: a file of its forward's arrays, or an image and a text; else InputError.

    transform  an image to an array `[3, height, width]`; None where the library states none
    tokenize   texts to ids `[b, n]`, and `token` an id to its text; None for a module that reads no text
    """

    def __init__(
        self,
        loaded: LoadedModel,
        inputs_file: str | None = None,
        media: Media | None = None,
        *,
        transform: Callable[[Any], torch.Tensor] | None = None,
        tokenize: Callable[[Sequence[str]], torch.Tensor] | None = None,
        token: Callable[[int], str] | None = None,
    ) -> None:
        super().__init__(loaded, inputs_file=inputs_file)
        self._media, self._transform, self._tokenize, self._token = media, transform, tokenize, token
        if media is not None and (not media.images or transform is None):
            kind = "audio" if not media.images else "image"
            raise InputError(f"{self.about['model']} states no transform for --{kind}", f"give arrays: {self._inputs}")
        if media is not None and len(media.images) > 1:
            raise InputError(f"{self.about['model']} reads one image at a time", "give one --image")

    @property
    def _inputs(self) -> str:
        return f"-F FILE.npz with {', '.join(signature(self.loaded.model.forward).parameters)}"

    def read(self, texts: Sequence[str], pair: str | None = None) -> list[Prompt]:
        """One prompt of the arrays in the inputs file, whatever the texts; without a file the image with each text."""
        if self.arrays is not None:
            return super().read(texts, pair)
        if self._media is None or pair is not None:
            hint = "--image FILE, or " if self._transform is not None else ""
            raise InputError(f"{self.about['model']} reads no text by itself", f"give {hint}{self._inputs}")
        return [self._with_image(text, self._media) for text in texts]

    def _with_image(self, text: str, media: Media) -> Prompt:
        transform = self._transform
        assert transform is not None
        model: nn.Module = self.loaded.model
        names = iter(signature(model.forward).parameters)
        image = media.images[0]
        pixels: torch.Tensor = transform(image)
        arrays: dict[str, Any] = {next(names): pixels[None]}
        notes = picture_notes(image, lambda other: {"pixels": transform(other)})
        patches, picture = _patches(model), in_grey(pixels)
        if self._tokenize is None:
            if text:
                raise InputError(f"{self.about['model']} reads no text beside --image", "leave out the text")
            return ArrayPrompt("", patches, notes, files=media.files, arrays=arrays, picture=picture)
        ids = self._tokenize([text])
        arrays[next(names)] = ids
        others = {"vision": patches} if patches else {}
        tokens = self._tokens(ids[0])
        if torch.equal(ids, self._tokenize([text.rpartition(" ")[0]])):
            notes += (f"read {ids.shape[1]} tokens: its tokenizer cuts the text",)
        return ArrayPrompt(text, tokens, notes, files=media.files, arrays=arrays, others=others, picture=picture)

    def _tokens(self, ids: torch.Tensor) -> tuple[Token, ...]:
        word = self._token or str
        numbers = ids.tolist()
        last = max((at for at, number in enumerate(numbers) if number), default=-1)
        tokens = (Token(at, word(number), number) for at, number in enumerate(numbers))
        return tuple(token if token.index <= last else replace(token, text="[PAD]", special=True) for token in tokens)


def _patches(model: nn.Module) -> tuple[Token, ...]:
    embedding = getattr(model, "patch_embed", None)
    tower = getattr(model, "visual", None)
    grid, before = getattr(embedding, "grid_size", None), getattr(model, "num_prefix_tokens", 0)
    if grid is None and tower is not None:
        grid, before = getattr(tower, "grid_size", None), int(hasattr(tower, "class_embedding"))
    if not isinstance(grid, tuple) or len(grid) != 2:
        return ()
    lead = [Token(at, "[CLS]" if at == 0 else f"[REG{at - 1}]", special=True) for at in range(before)]
    return (*lead, *cells(grid, before))
