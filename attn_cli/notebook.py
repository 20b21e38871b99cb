"""One line in a notebook: what a command answers, as an object that shows itself and gives its rows and arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

import numpy as np

from attn_cli.call import Call
from attn_cli.display import Displayed
from attn_cli.errors import InputError
from attn_cli.recording import Recording
from attn_cli.selection import Selection
from attn_cli.selection_syntax import selection_of
from attn_cli.source import Source
from attn_cli.sources import DEFAULT_MODEL, Loading, open_source
from attn_cli.summaries.answers.record import record as record_source
from attn_cli.summaries.reduce import Reducer, Summary, reduce
from attn_cli.summaries.reducers.heads.head_statistics import HeadStatistics
from attn_cli.summaries.reducers.kinds.head_kinds import HeadKindsReducer, KindTexts
from attn_cli.summaries.reducers.matrix import FullMatrix
from attn_cli.summaries.reducers.pooled import PooledMatrix
from attn_cli.summaries.reducers.received import ReceivedShares
from attn_cli.summaries.reducers.top import TopKeys
from attn_cli.summaries.reducers.worthiest import WorthiestMatrix, with_worthiest_alone
from attn_cli.summaries.report import Report
from attn_cli.text import counted
from attn_cli.token_syntax import picked_tokens
from attn_cli.views.data import arrays_of, to_json

if TYPE_CHECKING:
    from pandas import DataFrame

Model: TypeAlias = str | Source | Recording | tuple[Any, Any]
"""A `--model` value, an open source, a recording, or a transformers model with its tokenizer."""

Numbers: TypeAlias = int | Sequence[int] | str | None
"""Layers or heads: one, several, or None for all; negative numbers count from the end.

Or as `--head` takes them: "18.6" for head 6 of layer 18, "4-7".
"""

_ARGUMENTS = ("text", "model", "layers", "heads", "token", "mean", "k")  # of the functions below
_LARGEST = 64  # cells of an overview's matrix


class Table(Sequence[dict[str, Any]]):
    """Flat rows, each a dictionary with labels; `to_pandas` makes a data frame of them."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, at: Any) -> Any:
        return self._rows[at]

    def __repr__(self) -> str:
        return f"Table of {counted(len(self), 'row')}: {', '.join(self._rows[0]) if self._rows else 'empty'}"

    def to_pandas(self) -> "DataFrame":
        """The rows as a data frame of pandas, which must be installed."""
        pandas = import_module("pandas")
        return pandas.DataFrame(self._rows)


@dataclass(frozen=True, eq=False)
class Findings(Displayed):
    """What a command found in one text: a notebook shows its screen.

    report  the same as views get it: prompts, summaries of all layers, source
    """

    report: Report

    def __repr__(self) -> str:
        tokens = len(self.report.prompts[0].tokens)
        layers = counted(len(self.report.summaries), "layer")
        return f"attn {self.report.command}: {counted(tokens, 'token')}, {layers}"

    @property
    def heads(self) -> Table:
        """One row per head: entropy, distance, weight on the first key and so on."""
        return self._rows("heads")

    @property
    def top(self) -> Table:
        """One row per query and heavy key."""
        return self._rows("top")

    @property
    def received(self) -> Table:
        """One row per head and key: the share of all attention that it receives."""
        return self._rows("received")

    @property
    def cells(self) -> Table:
        """One row per cell of the matrices."""
        return self._rows("matrices")

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of the command's .npz file: of all layers stacked `[layers, heads, ...]`, and what axes mean.

        Layers of another shape and streams have names of their own: `layer3.weights`, `encoder.weights`.
        """
        return arrays_of(self.report)

    def to_json(self) -> str:
        """The JSON that the command's --json prints."""
        return to_json(self.report).decode()

    def to_pandas(self) -> "DataFrame":
        """The rows of the command's --format csv as a data frame."""
        return self._rows(self.report.summaries[0].parts[0].name if self.report.summaries else "").to_pandas()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        return self.report._repr_mimebundle_(include, exclude)

    def _rows(self, name: str) -> Table:
        """The rows of the parts of that name; InputError where the command has none."""
        streams = len(self.report.streams) > 1
        rows = [
            ({"stream": summary.place.stream} if streams else {}) | row
            for summary in self.report.summaries
            for part in summary.parts
            if part.name == name
            for row in part.records(summary)
        ]
        if not rows:
            has = dict.fromkeys(part.name for summary in self.report.summaries for part in summary.parts)
            raise InputError(f"attn {self.report.command} has no {name}", f"it has {', '.join(has)}")
        return Table(rows)


def inspect(
    text: str | None = None, model: Model = DEFAULT_MODEL, *, layers: Numbers = None, heads: Numbers = None,
    **loading: Unpack[Loading],
) -> Findings:  # fmt: skip
    """The overview of a text, as `attn inspect`: `.heads`, `.received`, and the matrix most worth a look.

    model    "gpt2", a folder, a .gguf or .attn file, an open source, a recording, or (model, tokenizer)
    layers   the layers to look at; heads likewise, or both at once: heads="18.6" is head 6 of layer 18
    loading  how a model is loaded, as for `open_source`

    Raises AttnError, whose hint says what to do: for a layer or head that isn't there, a model that can't be loaded, a
    text longer than it reads.
    """
    texts: dict[int, KindTexts] = {}

    def reducers(call: Call) -> list[Reducer]:
        kinds = HeadKindsReducer(texts.setdefault(id(call.keys), KindTexts([call.keys])))
        matrix = WorthiestMatrix(PooledMatrix(_LARGEST, _LARGEST), kinds)
        return [HeadStatistics(), kinds, ReceivedShares(), matrix]

    return _found("inspect", text, _opened(model, loading), _selection(layers, heads), reducers)


def heads(
    text: str | None = None, model: Model = DEFAULT_MODEL, *, layers: Numbers = None, heads: Numbers = None,
    **loading: Unpack[Loading],
) -> Findings:  # fmt: skip
    """One row per head, as `attn heads`: entropy in bits, distance in tokens, weights from 0 to 1.

    Arguments and errors are those of `inspect`.
    """
    chosen = _selection(layers, heads)
    return _found("heads", text, _opened(model, loading), chosen, lambda call: [HeadStatistics()])


def top(
    text: str | None = None, model: Model = DEFAULT_MODEL, *, k: int = 5, token: str | int | None = None,
    mean: bool = False, layers: Numbers = None, heads: Numbers = None, **loading: Unpack[Loading],
) -> Findings:  # fmt: skip
    """The k keys that each query attends to most, as `attn top`: `.top` has a row for each, with weight and score.

    token  the queries: a word of the text, its number, or None for all; AttnError for a word that isn't there
    mean   the mean over the chosen heads; all else as for `inspect`
    """
    return _found(
        "top", text, _opened(model, loading), _selection(layers, heads),
        lambda call: [TopKeys(k, rows=_rows(token, call), mean_heads=mean)],
    )  # fmt: skip


def matrix(
    text: str | None = None, model: Model = DEFAULT_MODEL, *, token: str | int | None = None, mean: bool = False,
    layers: Numbers = None, heads: Numbers = None, **loading: Unpack[Loading],
) -> Findings:  # fmt: skip
    """Weights and scores, as `attn matrix`: `.arrays["weights"]` and `["scores"]` `[layers, heads, n, m]`.

    Scores are -inf where masked; arguments and errors are those of `top`. A matrix is held whole, n x m numbers a head.
    """
    return _found(
        "matrix", text, _opened(model, loading), _selection(layers, heads),
        lambda call: [FullMatrix(scores=True, rows=_rows(token, call), mean_heads=mean)],
    )  # fmt: skip


def record(
    text: str,
    model: Model = DEFAULT_MODEL,
    *,
    layers: Numbers = None,
    heads: Numbers = None,
    **loading: Unpack[Loading],
) -> Recording:
    """What a model leaves behind when it reads a text: any cell of any head again, without the model.

    Arguments and errors are those of `inspect`: `record("a river bank", "gpt2")`, `record("a river bank", (model,
    tokenizer))`. Queries and keys of all chosen layers stay in memory.
    """
    if not isinstance(text, str):
        raise TypeError(f"text is a str, and not {type(text).__name__}: record(text, model)")
    return record_source(_opened(model, loading), text, selection=_selection(layers, heads))


def _found(command: str, text: str | None, source: Source, selection: Selection, reducers: Any) -> Findings:
    if not isinstance(text, str | None):
        raise TypeError(f"text is a str, and not {type(text).__name__}: {text!r}")
    prompt = source.read(["" if text is None else text])[0]
    summaries: list[Summary] = []
    source.each([prompt], selection, lambda call: summaries.append(reduce(call, *reducers(call))))
    found = with_worthiest_alone(tuple(summaries)) if command == "inspect" else tuple(summaries)
    return Findings(Report(command, source.about, (prompt,), found, prompt.warnings))


def _opened(model: Model, loading: Loading) -> Source:
    """The source that `model` means; a transformers model is looked at where it is."""
    for name in loading:
        if name not in Loading.__annotations__:
            near = get_close_matches(name, [*Loading.__annotations__, *_ARGUMENTS], 1)
            raise TypeError(f"no argument is called {name!r}" + (f", did you mean {near[0]!r}?" if near else ""))
    if isinstance(model, str):
        return open_source(model, **loading)
    if isinstance(model, Recording):
        return import_module("attn_cli.sources.recordings").RecordedSource(model, "the recording")
    if isinstance(model, tuple):
        return import_module("attn_cli.sources.huggingface.source").source_of(*model)
    return model


def _selection(layers: Numbers, heads: Numbers) -> Selection:
    if isinstance(layers, str) or isinstance(heads, str):
        return selection_of(_in_words(layers), _in_words(heads))
    chosen = [None if x is None else (x,) if isinstance(x, int) else tuple(x) for x in (layers, heads)]
    return Selection(layers=chosen[0], heads=chosen[1])


def _in_words(numbers: Numbers) -> str:
    """Layers or heads as `--layer` and `--head` take them."""
    if numbers is None or isinstance(numbers, str):
        return numbers or "all"
    return ",".join(map(str, [numbers] if isinstance(numbers, int) else numbers))


def _rows(token: str | int | None, call: Call) -> list[int] | None:
    return None if token is None else list(picked_tokens(str(token), call.queries, "")[0])
