"""One line in a notebook: what a command answers, as an object that shows itself and gives its rows and arrays."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, Unpack

import numpy as np

from attn_cli.call import Call
from attn_cli.display import Displayed
from attn_cli.model.source import Source
from attn_cli.notebook.models import Choosing, Model, opened, selected
from attn_cli.prompt import Prompt
from attn_cli.recording import Recording
from attn_cli.selection import ALL, Selection
from attn_cli.sources import DEFAULT_MODEL
from attn_cli.sources.memory import check_memory, free_memory
from attn_cli.summaries.answer import Answer, Table
from attn_cli.summaries.answers.calls import answer_of
from attn_cli.summaries.reduce import Reducer, Summary, reduce
from attn_cli.summaries.reducers.heads import HeadStatistics
from attn_cli.summaries.reducers.keys import ReceivedShares, RowKeys
from attn_cli.summaries.reducers.kinds.reducer import HeadKindsReducer
from attn_cli.summaries.reducers.matrix import MatrixOf
from attn_cli.summaries.reducers.record import record as record_source
from attn_cli.summaries.report import Report
from attn_cli.summaries.told.overview import overview_of, reads_each_token, with_one_head, with_one_matrix
from attn_cli.summaries.told.story import looked_and_told, opened_to_tell
from attn_cli.summaries.told.word_reads import WordReadsReducer
from attn_cli.text import counted
from attn_cli.token_syntax import picked_rows, rows_of_stream
from attn_cli.views.writers.data import arrays_of, to_json

if TYPE_CHECKING:
    from pandas import DataFrame

Rows: TypeAlias = Sequence[int] | None
"""The picked query rows of a call; None for all of them."""

Reducers: TypeAlias = Callable[[Rows, Call], Sequence[Reducer]]

_LARGEST = 64  # cells of an overview's matrix


@dataclass(frozen=True, eq=False)
class Findings(Displayed):
    """The result of a command on one text; a notebook shows what the command prints."""

    report: Report
    screen: Report

    def __repr__(self) -> str:
        tokens = len(self.report.prompts[0].tokens)
        layers = counted(len(self.report.summaries), "layer")
        return f"attn {self.report.command}: {counted(tokens, 'token')}, {layers}"

    @property
    def answer(self) -> Answer:
        """The result as its tables by name."""
        return answer_of(self.report)

    @property
    def heads(self) -> Table:
        """One row per head: layer, head, entropy_bits, distance in tokens, mean weights (0 to 1); else InputError."""
        return self.answer["heads"]

    @property
    def top(self) -> Table:
        """One row per head, query and rank from 0: a heavy key, with token, score and weight; InputError without."""
        return self.answer["top"]

    @property
    def received(self) -> Table:
        """One row per head and key: received_share, the mean weight on it over all queries, 0 to 1."""
        return self.answer["received"]

    @property
    def cells(self) -> Table:
        """One row per query and key of each head's matrix: layer, head, both with their tokens, score and weight."""
        return self.answer["cells"]

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of the command's .npz file by name: `[layers, heads, ...]`, with `tokens`, `layers`, `heads`."""
        return arrays_of(self.report)

    def to_json(self) -> str:
        """The result as JSON text, the same as the command line prints with --json."""
        return to_json(self.report).decode()

    def to_pandas(self) -> "DataFrame":
        """The rows of the command's --format csv as a data frame."""
        return next(iter(self.answer.tables.values())).to_pandas()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        return self.screen._repr_mimebundle_(include, exclude)


def inspect(
    text: str | None = None, model: Model = DEFAULT_MODEL, tokenizer: Any = None, **how: Unpack[Choosing]
) -> Findings:
    """The overview of a text, as `attn inspect`: `.heads`, `.received`, and the matrix of one head.

    text    None for that of a recording
    model   "gpt2", a folder, a .gguf or .attn file, an open source, a recording, or a model of transformers, whose
            tokenizer comes third
    layers  the layers to look at, None for all; heads likewise, or both at once: heads="18.6" is head 6 of layer 18
    how     else how a model is loaded, as for `open_source`

    Raises AttnError, whose hint says what to do: for a missing layer or head, a model that can't be loaded, a too long
    text.
    """
    every = HeadStatistics(), HeadKindsReducer(), ReceivedShares()
    source = opened_to_tell(lambda with_head: opened(text, model, tokenizer, how, predicts=with_head))
    prompt = _prompt(source, text)

    def reducers(call: Call) -> list[Reducer]:
        reads = [WordReadsReducer()] if reads_each_token(call) else []
        return [*every, *reads, MatrixOf((_LARGEST, _LARGEST))]

    summaries, story, notes = looked_and_told(source, prompt, selected(how), reducers, free_memory())
    report = Report("inspect", source.about, (prompt,), tuple(summaries), notes, story=story)
    return Findings(overview_of(report, on_screen=False), overview_of(report, on_screen=True))


def heads(
    text: str | None = None, model: Model = DEFAULT_MODEL, tokenizer: Any = None, **how: Unpack[Choosing]
) -> Findings:
    """One row per head, as `attn heads`: `.heads` has entropy in bits, distance in tokens, weights from 0 to 1.

    Text, model, layers, heads and errors are as for `inspect`.
    """
    kinds = HeadKindsReducer()
    asked = _asked(text, model, tokenizer, how)
    return asked.found("heads", lambda rows, _: [HeadStatistics(rows)], lambda rows, _: [HeadStatistics(rows), kinds])


def top(
    text: str | None = None,
    model: Model = DEFAULT_MODEL,
    tokenizer: Any = None,
    *,
    k: int = 5,
    token: str | int | None = None,
    mean: bool = False,
    **how: Unpack[Choosing],
) -> Findings:
    """The k keys that each query attends to most, as `attn top`: `.top` has a row for each, with weight and score.

    token   the queries: a word of the text, its number, or None for all; AttnError for a word that isn't there
    mean    take the mean over the chosen heads of each layer

    Text, model, layers and heads are as for `inspect`.
    """
    asked = _asked(text, model, tokenizer, how, token)
    return asked.found("top", RowKeys(k, mean), None if mean else RowKeys(k, all_heads=True))


def matrix(
    text: str | None = None,
    model: Model = DEFAULT_MODEL,
    tokenizer: Any = None,
    *,
    token: str | int | None = None,
    mean: bool = False,
    **how: Unpack[Choosing],
) -> Findings:
    """Weights and scores, as `attn matrix`: `.arrays["weights"]` and `["scores"]` `[layers, heads, n, m]`.

    token   the n queries: a word of the text, its number, or None for all
    mean    take the mean over the chosen heads of each layer

    Text, model, layers and heads are as for `inspect`. Scores are -inf where masked. LimitError before the model runs
    where n x m numbers a head are more than the free memory.
    """
    asked, kinds = _asked(text, model, tokenizer, how, token), HeadKindsReducer()
    kept = sum(1 if mean else layer.heads for layer in asked.source.planned_layers(asked.selection))
    rows, m = picked_rows(asked.token, asked.prompt)[0], len(asked.prompt.tokens)
    n = m if rows is None else len(rows)
    subject = f"weights and scores of {counted(kept, 'head')}, {n:,} x {m:,} each"
    check_memory(2 * 4 * kept * n * m, subject, "choose with layers=, heads= or token=, or add mean=True")

    def standing_out(rows: Rows, call: Call) -> list[Reducer]:
        return [kinds, MatrixOf((_LARGEST, _LARGEST))]

    def whole(rows: Rows, call: Call) -> list[Reducer]:
        return [MatrixOf(kinds=("weights", "scores"), rows=rows, mean_heads=mean)]

    return asked.found("matrix", whole, standing_out if token is None and not mean else None)


def record(text: str, model: Model = DEFAULT_MODEL, tokenizer: Any = None, **how: Unpack[Choosing]) -> Recording:
    """The recording of a model's pass over a text, kept in memory; arguments and errors are as for `inspect`."""
    return record_source(opened(text, model, tokenizer, how), text, selection=selected(how))


def _prompt(source: Source, text: str | None) -> Prompt:
    return source.read(["" if text is None else text])[0]


class _Asked(NamedTuple):
    """A text that is read, the layers and heads to look at, and the queries that are picked of it."""

    source: Source
    prompt: Prompt
    selection: Selection
    token: str | None

    def found(self, command: str, reducers: Reducers, of_screen: Reducers | None) -> Findings:
        """The parts that `reducers` make; a screen gets those of `of_screen` where no layers or heads are chosen."""
        if self.selection != ALL or self.source.about["type"] == "table":
            of_screen = None
        summaries, drawn = list[Summary](), list[Summary]()

        def visit(call: Call) -> None:
            rows = rows_of_stream(self.token, call.queries, self.prompt.text)
            if rows == []:  # another stream has it
                return
            own = reducers(rows, call)
            summary = reduce(call, *own, *(() if of_screen is None else of_screen(rows, call)))
            summaries.append(replace(summary, parts=summary.parts[: len(own)]))
            drawn.append(with_one_head(replace(summary, parts=summary.parts[len(own) :])))

        self.source.each([self.prompt], self.selection, visit)
        report = Report(command, self.source.about, (self.prompt,), tuple(summaries))
        return Findings(report, report if of_screen is None else replace(report, summaries=with_one_matrix(drawn)))


def _asked(text: str | None, model: Model, tokenizer: Any, how: Choosing, token: str | int | None = None) -> _Asked:
    source, pick = opened(text, model, tokenizer, how), None if token is None else str(token)
    prompt, selection = _prompt(source, text), selected(how)
    picked_rows(pick, prompt)  # raises before the model runs
    return _Asked(source, prompt, selection, pick)
