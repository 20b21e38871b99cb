"""Sources: tables, models and the user's matrices, each of which turns its input into attention calls."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, Unpack

from attn_cli.errors import InputError
from attn_cli.model.source import Source

if TYPE_CHECKING:
    from attn_cli.sources.tables.files import WordTable
    from attn_cli.sources.tables.source import TableSource

DEFAULT_MODEL = "toy"
_TABLES = (".txt", ".vec", ".csv", ".gz", ".npz")  # a .npz holds what `attn learn` found for a table

Chat: TypeAlias = Sequence[Mapping[str, Any]] | Mapping[str, Any]


class Reading(TypedDict, total=False):
    """Inputs beside the texts or in their place: keyword arguments of `open_source`."""

    decoder_text: str | None  # what the decoder of an encoder-decoder reads
    generate: int | None  # how many tokens the model generates first, at most; they are read with the text
    inputs: str | None
    image: str | Sequence[str] | None  # files, read beside every text, or instead by a model that reads none
    audio: str | None
    chat: Chat | None  # messages before the text, a user's; or a mapping with "messages" and template arguments


class Loading(TypedDict, total=False):
    """How a model is loaded and run: keyword arguments of `open_source`, ignored by tables."""

    device: str  # "auto", "cpu", "cuda" ...
    dtype: str  # "auto" (the checkpoint's), "float32", "bfloat16" ...
    trust_remote_code: bool
    predicts: bool
    reads_text: bool  # without which a model may have no tokenizer


class Opening(Reading, Loading, total=False):
    """The keyword arguments of `open_source`."""


_OPTIONS = {name: f"--{name}" for name in Reading.__annotations__} | {"decoder_text": "--pair", "inputs": "--file"}


def open_source(model: str = DEFAULT_MODEL, **options: Unpack[Opening]) -> Source:
    """Open what a `--model` value means: `toy`, `toy:NAME`, a table or recording file, a model folder, .gguf, hub id.

    The source turns texts into attention calls. Torch modules of other libraries are `timm:NAME` and
    `package.module:factory`. Options are those of `Reading` and `Loading`.

    Raises InputError for an option that is not for such a source, LoadError for a model or file that can't be read.
    """
    reading: Any = {name: value for name, value in options.items() if name in _OPTIONS and value is not None}
    loading: Any = {name: value for name, value in options.items() if name not in _OPTIONS}
    given = next((_OPTIONS[name] for name in reading), None)
    if given and not is_model(model):
        state = "has read its text already" if is_recording(model) else "is a table"
        raise InputError(f"{given} is for models, and {model} {state}", "choose a model with --model")
    if is_recording(model):
        from attn_cli.recording import Recording
        from attn_cli.sources.recordings import RecordedSource

        return RecordedSource(Recording.load(model), model)
    if is_table(model):
        return open_table_source(model)
    named = _module_name(model)
    if named is not None:
        return _open_module(named, reading, loading)
    from attn_cli.sources.huggingface.load.origin import OriginOptions, find
    from attn_cli.sources.huggingface.read.media import read_media

    if not reading.keys().isdisjoint({"inputs", "image", "audio"}):
        loading["reads_text"] = False
    origin = find(model, OriginOptions(**loading))

    media = read_media(reading.pop("image", None), reading.pop("audio", None))
    # torch and transformers (2 s) are imported here only, so not for tables, matrices and mistyped paths.
    from attn_cli.sources.huggingface.load.checkpoint import load
    from attn_cli.sources.huggingface.source import reading_source

    return reading_source(load(origin, generates="generate" in reading), media, **reading)


def _open_module(named: tuple[str, str], reading: Any, loading: Any) -> Source:
    """A torch module of another library as a source; InputError for options that are for transformers models."""
    from attn_cli.sources.huggingface.load.origin import OriginOptions, check_options
    from attn_cli.sources.huggingface.read.media import read_media

    options = replace(OriginOptions(**loading), reads_text=False)
    others = {_OPTIONS[option] for option in reading.keys() - {"inputs", "image"}}
    if others:
        raise InputError(f"{min(others)} is for transformers models", f"leave out {min(others)}")
    check_options(options)
    media = read_media(reading.get("image"), None)
    from attn_cli.sources.huggingface.modules import ModuleReader, build
    from attn_cli.sources.huggingface.source import ModelSource

    loaded, transform = build(*named, options)
    return ModelSource(loaded, ModuleReader(loaded, reading.get("inputs"), media, transform))


_FACTORY = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


def _module_name(model: str) -> tuple[str, str] | None:
    """The package, and the model or function in it, that a `--model` value names.

    >>> _module_name("timm:vit_tiny_patch16_224.augreg"), _module_name("nets.mine:build")
    (('timm', 'vit_tiny_patch16_224.augreg'), ('nets.mine', 'build'))
    >>> _module_name("gpt2") or _module_name("toy:bank") or _module_name("C:/model")
    """
    package, _, wanted = model.partition(":")
    if not wanted or package == "toy" or Path(model).exists():
        return None
    return (package, wanted) if package == "timm" or _FACTORY.fullmatch(model) else None


def is_table(model: str) -> bool:
    """True where a `--model` value means a table of word vectors: toy, toy:NAME, or a .txt, .vec, .csv ... file."""
    return _is_built_in(model) or Path(model).suffix.lower() in _TABLES


def is_recording(model: str) -> bool:
    """True where a `--model` value means a recording, a file that ends in .attn."""
    return Path(model).suffix.lower() == ".attn"


def is_model(name: str) -> bool:
    """True where a `--model` value means a model that runs: neither a table nor a recording."""
    return not (is_table(name) or is_recording(name))


def open_table_source(model: str = DEFAULT_MODEL) -> "TableSource":
    """The table of word vectors that a `--model` value means; InputError for a model's value."""
    from attn_cli.sources.tables.source import TableSource

    if _is_built_in(model):
        return TableSource(_table(model))
    from attn_cli.sources.tables.files import read_learned

    learned = read_learned(model)
    return TableSource(_table(model if learned is None else learned[0]), model, learned)


def _table(model: str) -> "WordTable":
    if not is_table(model):
        raise InputError(f"{model} is not a table of word vectors", "give toy, toy:NAME or a table file")
    if _is_built_in(model):
        from attn_cli.sources.tables import open_table

        return open_table(model.partition(":")[2])
    from attn_cli.sources.tables.files import open_table_file

    return open_table_file(model)


def _is_built_in(model: str) -> bool:
    return model.partition(":")[0] == "toy"
