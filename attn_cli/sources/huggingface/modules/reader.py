"""The inputs of a torch module of another library: arrays from a file, or an image and a text by its own transforms."""

from collections.abc import Sequence
from dataclasses import replace
from inspect import signature
from typing import Any

import torch
from torch import nn

from attn_cli.errors import InputError
from attn_cli.prompt import Prompt, Token
from attn_cli.sources.huggingface.anatomy.image_grid import cells, in_grey
from attn_cli.sources.huggingface.modules.build import BuiltModule
from attn_cli.sources.huggingface.read.cuts import picture_notes
from attn_cli.sources.huggingface.read.input_files import ArrayPrompt
from attn_cli.sources.huggingface.read.media import Media
from attn_cli.sources.huggingface.read.reader import PromptReader


class ModuleReader(PromptReader):
    """Reads another library's inputs: a file of its forward's arrays, or an image and a text; else InputError."""

    def __init__(self, built: BuiltModule, inputs_file: str | None = None, media: Media | None = None) -> None:
        super().__init__(built.loaded, inputs_file=inputs_file)
        self._built, self._media = built, media
        if media is not None and (not media.images or built.transform is None):
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
            hint = "--image FILE, or " if self._built.transform is not None else ""
            raise InputError(f"{self.about['model']} reads no text by itself", f"give {hint}{self._inputs}")
        return [self._with_image(text, self._media) for text in texts]

    def _with_image(self, text: str, media: Media) -> Prompt:
        transform = self._built.transform
        assert transform is not None
        model: nn.Module = self.loaded.model
        names = iter(signature(model.forward).parameters)
        image = media.images[0]
        pixels: torch.Tensor = transform(image)
        arrays: dict[str, Any] = {next(names): pixels[None]}
        notes = picture_notes(image, lambda other: {"pixels": transform(other)})
        patches, picture = _patches(model), in_grey(pixels)
        if self._built.tokenize is None:
            if text:
                raise InputError(f"{self.about['model']} reads no text beside --image", "leave out the text")
            return ArrayPrompt("", patches, notes, files=media.files, arrays=arrays, picture=picture)
        ids = self._built.tokenize([text])
        arrays[next(names)] = ids
        others = {"vision": patches} if patches else {}
        tokens = self._tokens(ids[0])
        if torch.equal(ids, self._built.tokenize([text.rpartition(" ")[0]])):
            notes += (f"read {ids.shape[1]} tokens: its tokenizer cuts the text",)
        return ArrayPrompt(text, tokens, notes, files=media.files, arrays=arrays, others=others, picture=picture)

    def _tokens(self, ids: torch.Tensor) -> tuple[Token, ...]:
        word = self._built.token or str
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
