"""One line in a notebook: what a command answers, as an object that shows itself and gives its rows and arrays."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

import numpy as np

from attn_cli.call import Call
from attn_cli.display import Displayed
from attn_cli.errors import InputError
from attn_cli.model.source import Source
from attn_cli.notebook.models import Model, Numbers, Opening, opened, selected
from attn_cli.prompt import Prompt
from attn_cli.recording import Recording
from attn_cli.selection import Selection
from attn_cli.sources import DEFAULT_MODEL
from attn_cli.sources.memory import check_memory
from attn_cli.summaries.answers.record import record as record_source
from attn_cli.summaries.chosen_matrix import with_one_head, with_one_matrix
from attn_cli.summaries.reduce import Reducer, Summary, reduce
from attn_cli.summaries.reducers.heads.head_statistics import HeadStatistics
from attn_cli.summaries.reducers.kinds.reducer import TextKinds
from attn_cli.summaries.reducers.matrix import FullMatrix
from attn_cli.summaries.reducers.pooled import PooledMatrix
from attn_cli.summaries.reducers.received import ReceivedShares
from attn_cli.summaries.reducers.top import TopKeys
from attn_cli.summaries.report import Report
from attn_cli.summaries.told.word_reads import UnitReadsReducer
from attn_cli.summaries.with_reads import reads_each_token, with_word_reads
from attn_cli.text import counted
from attn_cli.token_syntax import picked_rows, rows_of_stream
from attn_cli.views.data import arrays_of, to_json

if TYPE_CHECKING:
    from pandas import DataFrame

Rows: TypeAlias = Sequence[int] | None
"""The picked query rows of a call; None for all of them."""

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
    """The result of a command on one text: a notebook shows its screen.

    report  the same as views get it: prompts, summaries of all layers, source
    """

    report: Report

    def __repr__(self) -> str:
        tokens = len(self.report.prompts[0].tokens)
        layers = counted(len(self.report.summaries), "layer")
        return f"attn {self.report.command}: {counted(tokens, 'token')}, {layers}"

    @property
    def heads(self) -> Table:
        """One row per head: entropy in bits, distance in tokens, the weight on the first key and so on, 0 to 1."""
        return self._rows("heads")

    @property
    def top(self) -> Table:
        """One row per head, query and rank from 0: one of its heaviest keys, with token, score and weight."""
        return self._rows("top")

    @property
    def received(self) -> Table:
        """One row per head and key: received_share, the mean weight on it over all queries, 0 to 1."""
        return self._rows("received")

    @property
    def cells(self) -> Table:
        """One row per query and key of each head's matrix: layer, head, both with their tokens, score and weight."""
        return self._rows("matrices")

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of the command's .npz file: of all layers stacked `[layers, heads, ...]`, and what axes mean.

        Layers of another shape and streams have names of their own: `layer3.weights`, `encoder.weights`.
        """
        return arrays_of(self.report)

    def to_json(self) -> str:
        """The result as JSON text, the same as the command line prints with --json."""
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
    **loading: Unpack[Opening],
) -> Findings:  # fmt: skip
    """The overview of a text, as `attn inspect`: `.heads`, `.received`, and the matrix of the head that stands out.

    model    "gpt2", a folder, a .gguf or .attn file, an open source, a recording, or (model, tokenizer); a model of
             transformers is taken with tokenizer=, too
    layers   the layers to look at; heads likewise, or both at once: heads="18.6" is head 6 of layer 18
    loading  how a model is loaded, as for `open_source`

    Raises AttnError, whose hint says what to do: for a layer or head that isn't there, a model that can't be loaded, a
    text longer than it reads.
    """
    kinds = TextKinds()

    def reducers(rows: object, call: Call) -> list[Reducer]:
        reads = [UnitReadsReducer()] if reads_each_token(call) else []
        return [HeadStatistics(), kinds.reducer(call), ReceivedShares(), *reads, PooledMatrix(_LARGEST, _LARGEST)]

    return _found("inspect", text, opened(text, model, loading), selected(layers, heads), reducers)


def heads(
    text: str | None = None, model: Model = DEFAULT_MODEL, *, layers: Numbers = None, heads: Numbers = None,
    **loading: Unpack[Opening],
) -> Findings:  # fmt: skip
    """One row per head, as `attn heads`: entropy in bits, distance in tokens, weights from 0 to 1.

    Arguments and errors are those of `inspect`.
    """
    chosen = selected(layers, heads)
    return _found("heads", text, opened(text, model, loading), chosen, lambda rows, call: [HeadStatistics()])


def top(
    text: str | None = None, model: Model = DEFAULT_MODEL, *, k: int = 5, token: str | int | None = None,
    mean: bool = False, layers: Numbers = None, heads: Numbers = None, **loading: Unpack[Opening],
) -> Findings:  # fmt: skip
    """The k keys that each query attends to most, as `attn top`: `.top` has a row for each, with weight and score.

    token  the queries: a word of the text, its number, or None for all; AttnError for a word that isn't there
    mean   the mean over the chosen heads; all else as for `inspect`
    """
    chosen = selected(layers, heads)
    return _found(
        "top",
        text,
        opened(text, model, loading),
        chosen,
        lambda rows, call: [TopKeys(k, rows=rows, mean_heads=mean)],
        token=token,
    )


def matrix(
    text: str | None = None, model: Model = DEFAULT_MODEL, *, token: str | int | None = None, mean: bool = False,
    layers: Numbers = None, heads: Numbers = None, **loading: Unpack[Opening],
) -> Findings:  # fmt: skip
    """Weights and scores, as `attn matrix`: `.arrays["weights"]` and `["scores"]` `[layers, heads, n, m]`.

    Scores are -inf where masked; arguments and errors are those of `top`. A matrix is held whole, n x m numbers a head:
    LimitError before the model runs where that is more than the free memory.
    """
    source, chosen = opened(text, model, loading), selected(layers, heads)

    def check(prompt: Prompt, rows: Rows) -> None:
        kept = sum(1 if mean else layer.heads for layer in source.planned_layers(chosen))
        n, m = len(prompt.tokens if rows is None else rows), len(prompt.tokens)
        check_memory(
            2 * 4 * kept * n * m, f"weights and scores of {counted(kept, 'head')}, {n:,} x {m:,} each",
            "choose with layers=, heads= or token=, or add mean=True",
        )  # fmt: skip

    return _found(
        "matrix", text, source, chosen, lambda rows, call: [FullMatrix(scores=True, rows=rows, mean_heads=mean)],
        token=token, check=check,
    )  # fmt: skip


def record(
    text: str,
    model: Model = DEFAULT_MODEL,
    *,
    layers: Numbers = None,
    heads: Numbers = None,
    **loading: Unpack[Opening],
) -> Recording:
    """The recording of a model's pass over a text: any cell of any head again, without the model.

    Arguments and errors are those of `inspect`: `record("a river bank", "gpt2")`, `record("a river bank", (model,
    tokenizer))`. Queries and keys of all chosen layers stay in memory.
    """
    return record_source(opened(text, model, loading), text, selection=selected(layers, heads))


def _found(
    command: str, text: str | None, source: Source, selection: Selection,
    reducers: Callable[[Rows, Call], Sequence[Reducer]], *, token: str | int | None = None,
    check: Callable[[Prompt, Rows], None] = lambda prompt, rows: None,
) -> Findings:  # fmt: skip
    """The parts that reducers make of a text.

    reducers  made for some rows of a call, None for all
    token     the queries; looked for before the model runs
    check     raises LimitError, before the model runs, where so many rows of the text take too much
    """
    prompt = source.read(["" if text is None else text])[0]
    pick = None if token is None else str(token)
    check(prompt, picked_rows(pick, prompt)[0])
    summaries: list[Summary] = []

    def visit(call: Call) -> None:
        rows = rows_of_stream(pick, call.queries, prompt.text)
        if rows == []:  # another stream has it
            return
        summary = reduce(call, *reducers(rows, call))
        summaries.append(with_one_head(summary) if command == "inspect" else summary)

    source.each([prompt], selection, visit)
    found = with_one_matrix(summaries) if command == "inspect" else tuple(summaries)
    report = Report(command, source.about, (prompt,), found, prompt.warnings)
    return Findings(with_word_reads(report) if command == "inspect" else report)
