"""What every one-line function is given, in any of the forms that people have it in: a text, a model, and options."""

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import cached_property, wraps
from importlib import import_module
from inspect import Parameter, signature
from typing import Any, TypeVar
from warnings import catch_warnings, filterwarnings

from attn_cli.errors import AttnError, InputError
from attn_cli.model.source import Source
from attn_cli.prompt import Prompt
from attn_cli.recording import Recording
from attn_cli.selection import ALL
from attn_cli.selection_syntax import selection_of
from attn_cli.sources import DEFAULT_MODEL, Loading, Reading, open_source
from attn_cli.sources.files.paths import leads_somewhere
from attn_cli.summaries.told.story import opened_to_tell
from attn_cli.views.notebook import in_python

Result = TypeVar("Result")
_OPTIONS = ("layers", "heads", *Reading.__annotations__, *Loading.__annotations__)
_ON_ALL = """
    model     "gpt2", a folder, a .gguf or .attn file, an open source, a recording, or a model of transformers, whose
              tokenizer comes next, or beside it in a tuple
    layers    the layers to look at: 5, -1 (the last), [0, 5], "4-7"; None for all
    heads     the heads of each, likewise; or with their layers: "18.6,20.0"
    generate  how many tokens the model writes first; the rest is as for `open_source`

    Raises AttnError, whose hint says what to do.
"""


class Asked:
    """A text that a model has read, and the layers and heads to look at."""

    def __init__(self, given: Mapping[str, Any], predicts: bool | None) -> None:
        for text in (text for name, text in given.items() if name.startswith("text")):
            if not isinstance(text, str | Prompt | None):
                what = "an open source" if hasattr(text, "each") else type(text).__name__
                order = "the texts come first, one by one" if "text1" in given else "the text comes first"
                raise InputError(f"text is a str, and not {what}", f"{order}, then the model")
            if "model" not in given and "/" in str(text) and leads_somewhere(str(text)):
                raise InputError(f"the text is a path: {text}", f"a model's? write model={text!r}")
        self.text = next(iter(given.values()), None)
        self.selection = selection_of(*(_in_words(given.get(name)) for name in ("layers", "heads")))
        self.source = opened_to_tell(lambda has_head: opened(given, has_head if predicts is None else predicts))
        self.chooses = self.selection == ALL and self.source.about["type"] != "table"  # what to show, as nobody said it

    @cached_property
    def prompt(self) -> Prompt:
        """The text as the model's tokens; that of a recording for None."""
        return self.text if isinstance(self.text, Prompt) else self.source.read([self.text or ""])[0]


def one_line(predicts: bool | None = False) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Make a function of `Asked` one of a text and a model, with all options in its help and Python's words in errors.

    predicts  whether the model is opened with its LM head; None for where it has one"""

    def made(function: Callable[..., Result]) -> Callable[..., Result]:
        kind, (_, *own) = Parameter.POSITIONAL_OR_KEYWORD, signature(function).parameters.values()
        more = [each for each in own if each.kind is kind]
        first = Parameter("text1", kind) if more else Parameter("text", kind, default=None)
        model = Parameter("model", kind, default=DEFAULT_MODEL), Parameter("tokenizer", kind, default=None)
        options = [Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in _OPTIONS]
        shown = signature(function).replace(parameters=[first, *more, *model, *own[len(more) :], *options])

        @wraps(function)
        def called(*args: Any, **named: Any) -> Result:
            for name in named.keys() - shown.parameters.keys():
                near = get_close_matches(name, shown.parameters, 1, 0.7)
                near = near or re.findall(rf"^    (\w+)  .*\b{name}\b", function.__doc__ or "", re.MULTILINE)
                hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(shown.parameters)}"
                raise InputError(f"no argument is called {name!r}", hint)
            given = {first.name: None, **shown.bind(*args, **named).arguments}
            try:
                asked = Asked(given, predicts)
                return function(asked, **{each.name: given[each.name] for each in own if each.name in given})
            except AttnError as error:
                error.message, error.hint = in_python(error.message), in_python(error.hint)
                raise

        called.__signature__, called.__doc__ = shown, f"{function.__doc__}\n{_ON_ALL}"  # type: ignore[attr-defined]
        return called

    return made


def opened(given: Mapping[str, Any], predicts: bool) -> Source:
    """The source (what gives attention layer by layer) that `model` means; a transformers model is taken as it is."""
    model, tokenizer = given.get("model", DEFAULT_MODEL), given.get("tokenizer")
    loading: Any = {"predicts": predicts} | {name: given[name] for name in _OPTIONS[2:] if given.get(name) is not None}
    if isinstance(model, str):
        if tokenizer is not None:
            raise InputError(f"{model} has its own tokenizer", "leave out tokenizer=, or pass (model, tokenizer)")
        with catch_warnings():
            filterwarnings("ignore", message="IProgress not found")  # of tqdm, whose bars aren't shown
            return open_source(model, **loading)
    read = {name: value for name, value in loading.items() if name in Reading.__annotations__}
    if isinstance(model, tuple) or _is_module(model):
        parts = [*(model if isinstance(model, tuple) else [model]), *([] if tokenizer is None else [tokenizer])]
        parts.sort(key=_is_module, reverse=True)  # in either order
        if [_is_module(part) for part in parts] != [True, False]:
            raise InputError("a transformers model needs its tokenizer", 'pass (model, tokenizer), or a name: "gpt2"')
        if media := {"image", "audio"} & read.keys():
            raise InputError(f"{media.pop()} takes the model's processor", "give the model by its name or folder")
        predicts = predicts or "generate" in read
        return import_module("attn_cli.sources.huggingface.source").source_of(*parts, predicts=predicts, **read)
    if read:
        raise InputError(f"{next(iter(read))} is read when a model is opened", "give it to open_source")
    if isinstance(model, Recording):
        return import_module("attn_cli.sources.recordings").RecordedSource(model, "the recording")
    if not hasattr(model, "each"):
        raise InputError(f"model is of type {type(model).__name__}", "give a name, (model, tokenizer) or a recording")
    return model


def _in_words(numbers: Any) -> str | None:
    if numbers is None or isinstance(numbers, str):
        return numbers
    return ",".join(map(str, numbers if hasattr(numbers, "__iter__") else [numbers]))


def _is_module(part: object) -> bool:
    return hasattr(part, "forward") and hasattr(part, "named_modules")
