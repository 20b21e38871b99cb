"""The options that name a model, its layers and heads, and say how it is loaded."""

import shutil
import time
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Unpack

from attn_cli.cli.kit.options import named as o
from attn_cli.cli.kit.shell import completion
from attn_cli.cli.kit.shell.signature import option
from attn_cli.cli.kit.stderr import StatusLine, print_notes
from attn_cli.model.source import Source
from attn_cli.selection import ALL, Selection
from attn_cli.sources import Reading, is_model, open_source
from attn_cli.sources.devices import DTYPES, check_names
from attn_cli.sources.files.paths import expanded
from attn_cli.sources.huggingface.load.weight_files import weight_bytes
from attn_cli.text import decimal_bytes
from attn_cli.views.drawing.cells import fit_path

_model, _device = (partial(option, rich_help_panel=group) for group in ("Model", "Device"))
opened: ContextVar[Source | None] = ContextVar("opened", default=None)
"""The source that commands read, whatever their --model names; None for the one that it names."""


@dataclass(frozen=True, repr=False, eq=False)
class LookOptions:
    """Options for the model, its layers and its heads."""

    model: str = o.MODEL
    layer: str | None = option(None, "--layer -l LAYERS", "Choose layers: 3, -1, 0,2, 4-7 or all.")
    head: str | None = option(
        None,
        "--head -H HEADS",
        "Choose heads: 3, 0,2, 4-7 or all; 18.6 is head 6 of layer 18, cross:1.1 of cross attention.",
    )


@dataclass(frozen=True, repr=False, eq=False)
class LoadOptions:
    """Options for loading and running a model."""

    adapter: list[str] | None = _model(
        None, "--adapter DIR", "Merge an adapter (LoRA and its kin) into the model; may be repeated."
    )
    device: str = _device(
        "auto",
        "--device DEVICE",
        "Run on auto (a GPU, else the processor), cpu, cuda, cuda:1 or mps.",
        envvar="ATTN_DEVICE",
        autocompletion=completion.one_of(lambda: ("auto", "cpu", "cuda", "cuda:0", "mps")),
    )
    dtype: str = _device(
        "auto",
        "--dtype DTYPE",
        "Compute in auto, float32, bfloat16 or float16.",
        envvar="ATTN_DTYPE",
        autocompletion=completion.one_of(lambda: DTYPES),
    )
    trust_remote_code: bool = _model(False, "--trust-remote-code", "Run code that comes with the model.")

    def open(
        self,
        model: str,
        *,
        quiet: bool,
        verbose: bool = False,
        predicts: bool = False,
        chosen: Selection = ALL,
        **reading: Unpack[Reading],
    ) -> Source:
        """Open what --model names: a model, a table of word vectors or a recording."""
        source = opened.get()
        if source is not None:
            return source
        check_names(self.device, self.dtype)
        start, unpacked = time.monotonic(), None
        if is_model(model):
            from attn_cli.kept.unpacked import unpacked_models  # here: tables need no cache

            unpacked = unpacked_models()
        with StatusLine(_loading(model), quiet=quiet or not is_model(model)):
            source = open_source(
                model,
                adapters=tuple(self.adapter or ()),
                device=self.device,
                dtype=self.dtype,
                trust_remote_code=self.trust_remote_code,
                predicts=predicts,
                chosen=chosen,
                unpacked=unpacked,
                **reading,
            )
        print_notes([f"loaded in {time.monotonic() - start:.2f} s"], quiet=quiet or not verbose)
        return source


def _loading(model: str) -> str:
    size = weight_bytes(expanded(model))
    more = f" · {decimal_bytes(size)}" if size else ""
    room = shutil.get_terminal_size().columns - len(f"loading {more} 0:00:00") - 1  # of the clock that follows
    return f"loading {fit_path(model, room)}{more}"
