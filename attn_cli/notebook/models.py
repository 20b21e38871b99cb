"""The text and the model that a one-line function is given, in any of the forms that people have them in."""

from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, TypeAlias, TypeGuard, cast
from warnings import catch_warnings, filterwarnings

from attn_cli.errors import InputError
from attn_cli.model.source import Source
from attn_cli.prompt import Prompt
from attn_cli.recording import Recording
from attn_cli.selection import Selection
from attn_cli.selection_syntax import selection_of
from attn_cli.sources import Opening, Reading, open_source

Model: TypeAlias = str | Source | Recording | tuple[Any, Any] | Any
"""A `--model` value, an open source, a recording, or a transformers model with its tokenizer, in a tuple or apart."""

Numbers: TypeAlias = int | Sequence[int] | str | None
"""Layers or heads: one, several, or None for all; negative numbers count from the end.

Or as `--head` takes them: "18.6" for head 6 of layer 18, "4-7".
"""


class Choosing(Opening, total=False):
    """The keyword arguments of all one-line functions: which layers and heads, and how a model is loaded."""

    layers: Numbers
    heads: Numbers


_OWN = ("text", "model", "tokenizer", "token", "mean", "k", "rows", "seed")  # arguments that some of them have besides


def opened(text: object, model: Model, tokenizer: Any, how: Choosing, *, predicts: bool = False) -> Source:
    """The source (what gives attention layer by layer) that `model` means; a transformers model is taken as it is."""
    if not isinstance(text, str | Prompt | None):
        raise TypeError(f"text is a str, and not {_type_of(text)}: the text comes first, then the model")
    for name in how:
        if name not in Choosing.__annotations__:
            near = get_close_matches(name, [*Choosing.__annotations__, *_OWN], 1)
            raise TypeError(f"no argument is called {name!r}" + (f", did you mean {near[0]!r}?" if near else ""))
    loading = {name: value for name, value in how.items() if name in Opening.__annotations__}
    if isinstance(model, str):
        if tokenizer is not None:
            raise InputError(
                f"{model} brings a tokenizer of its own", "leave out tokenizer=, or pass (model, tokenizer)"
            )
        if predicts:
            loading.setdefault("predicts", True)
        with catch_warnings():
            filterwarnings("ignore", message="IProgress not found")  # of tqdm, whose bars aren't shown
            return open_source(model, **cast(Any, loading))
    read = {name: loading[name] for name in Reading.__annotations__ if loading.get(name) is not None}
    if isinstance(model, tuple) or _is_module(model):
        parts = [*(model if isinstance(model, tuple) else [model]), *([] if tokenizer is None else [tokenizer])]
        parts.sort(key=_is_module, reverse=True)  # in either order
        if [_is_module(part) for part in parts] != [True, False]:
            raise InputError(
                "a transformers model needs its tokenizer", 'pass (model, tokenizer), or a name such as "gpt2"'
            )
        if media := {"image", "audio"} & read.keys():
            raise InputError(f"{media.pop()} takes the model's processor", "give the model by its name or folder")
        predicts = predicts or "generate" in read
        return import_module("attn_cli.sources.huggingface.source").source_of(*parts, predicts=predicts, **read)
    if read:
        raise InputError(f"{next(iter(read))} is read when a model is opened", "give it to open_source")
    if isinstance(model, Recording):
        return import_module("attn_cli.sources.recordings").RecordedSource(model, "the recording")
    if not is_source(model):
        raise TypeError(f"model is a name, (model, tokenizer) or a recording, and not {type(model).__name__}")
    return model


def is_source(thing: object) -> TypeGuard[Source]:
    """True for an open source, which hands over a model's attention layer by layer."""
    return hasattr(thing, "each")


def selected(how: Choosing) -> Selection:
    """The layers and heads that numbers, or words such as "18.6" for head 6 of layer 18, choose; None for all."""
    layers, heads = how.get("layers"), how.get("heads")
    if isinstance(layers, str) or isinstance(heads, str):
        return selection_of(_in_words(layers), _in_words(heads))
    chosen = [None if x is None else (x,) if isinstance(x, int) else tuple(x) for x in (layers, heads)]
    return Selection(layers=chosen[0], heads=chosen[1])


def _type_of(thing: object) -> str:
    return "an open source" if is_source(thing) else type(thing).__name__


def _is_module(part: object) -> bool:
    return hasattr(part, "forward") and hasattr(part, "named_modules")


def _in_words(numbers: Numbers) -> str | None:
    if numbers is None or isinstance(numbers, str):
        return numbers
    return ",".join(map(str, [numbers] if isinstance(numbers, int) else numbers))
