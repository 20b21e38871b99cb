"""A recording: the attention of one text in every layer that was looked at."""

import os

from attn_cli.display import Displayed
from attn_cli.recording import file
from attn_cli.recording.document import Contents


class Recording(Contents, Displayed):
    """One text that a model has read: `about` the model, `prompt`, and its `layers` in the order of the forward pass.

    Any cell, row, column or block of any head again, without n x n and without the model; `attn_cli.record` makes one.
    """

    def __repr__(self) -> str:
        heads = sum(layer.h for layer in self.layers)
        model = self.about["model"]
        return f"Recording of {model}: {len(self.prompt.tokens)} tokens, {len(self.layers)} layers, {heads} heads"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as one file, which `load` and every command read: `attn heads -m PATH`."""
        file.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Recording":
        """Read a file that `save` or `-o x.attn` wrote; LoadError for any other."""
        contents = file.load(path)
        return cls(contents.about, contents.prompt, contents.layers)
