"""The outside world in, attention calls out: tables, models and matrices, behind one door."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from attn_cli.call import Call, Prompt, Selection

DEFAULT_MODEL = "toy"


class Source(Protocol):
    """Something that turns texts into attention calls.

    about       what it is, for headers and machine output: model, type, revision, dtype, device
    batch_size  how many texts it likes to get at once
    """

    about: dict[str, Any]
    batch_size: int

    def read(self, texts: Sequence[str], pair: str | None = None) -> list[Prompt]:
        """The texts as the source's tokens."""

    def last_layer(self, selection: Selection) -> int:
        """The number of the last asked layer."""

    def each(self, prompts: Sequence[Prompt], selection: Selection, visit: Callable[[Call], None]) -> None:
        """Show every asked layer of every prompt to `visit`."""


def open_source(model: str = DEFAULT_MODEL, **options: Any) -> Source:
    """The source behind a `--model` value: `toy`, `toy:NAME`, else a model folder, .gguf file or hub id.

    `options` are those of `ModelOptions`: revision, device, dtype, trust_remote_code, offline.
    """
    kind, _, name = model.partition(":")
    if kind == "toy":
        from attn_cli.sources.tables import open_table
        from attn_cli.sources.toy import TableSource

        return TableSource(open_table(name))
    from attn_cli.sources.huggingface.origin import ModelOptions, find

    origin = find(model, ModelOptions(**options))
    # The one deferred import of torch and transformers (2 s): tables, matrices and mistyped paths never pay for it.
    from attn_cli.sources.huggingface.load import load
    from attn_cli.sources.huggingface.source import ModelSource

    return ModelSource(load(origin))
