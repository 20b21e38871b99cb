"""One line in a notebook: what a command answers, as an object that shows itself and gives its rows and arrays."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

import numpy as np

from attn_cli.call import Call
from attn_cli.display import Displayed
from attn_cli.model.source import Source
from attn_cli.notebook.models import Model, Numbers, opened, selected
from attn_cli.prompt import Prompt
from attn_cli.recording import Recording
from attn_cli.selection import ALL, Selection
from attn_cli.sources import DEFAULT_MODEL, Opening
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
from attn_cli.views.data import arrays_of, to_json

if TYPE_CHECKING:
    from pandas import DataFrame

Rows: TypeAlias = Sequence[int] | None
"""The picked query rows of a call; None for all of them."""

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
    text: str | None = None, model: Model = DEFAULT_MODEL, tokenizer: Any = None, *,
    layers: Numbers = None, heads: Numbers = None, **loading: Unpack[Opening],
) -> Findings:  # fmt: skip
    """The overview of a text, as `attn inspect`: `.heads`, `.received`, and the matrix of one head.

    text     None for that of a recording
    model    "gpt2", a folder, a .gguf or .attn file, an open source, a recording, or a model of transformers, whose
             tokenizer comes third
    layers   the layers to look at, None for all; heads likewise, or both at once: heads="18.6" is head 6 of layer 18
    loading  how a model is loaded, as for `open_source`

    Raises AttnError, whose hint says what to do: for a missing layer or head, a model that can't be loaded, a too long
    text.
    """
    every = HeadStatistics(), HeadKindsReducer(), ReceivedShares()
    source = opened_to_tell(lambda with_head: opened(text, model, tokenizer, loading, predicts=with_head))
    prompt, chosen = _prompt(source, text), selected(layers, heads)

    def reducers(call: Call) -> list[Reducer]:
        reads = [WordReadsReducer()] if reads_each_token(call) else []
        return [*every, *reads, MatrixOf((_LARGEST, _LARGEST))]

    summaries, story, notes = looked_and_told(source, prompt, chosen, reducers, free_memory())
    report = Report("inspect", source.about, (prompt,), tuple(summaries), notes, story=story)
    return Findings(overview_of(report, on_screen=False), overview_of(report, on_screen=True))


def heads(
    text: str | None = None, model: Model = DEFAULT_MODEL, tokenizer: Any = None, *,
    layers: Numbers = None, heads: Numbers = None, **loading: Unpack[Opening],
) -> Findings:  # fmt: skip
    """One row per head, as `attn heads`: `.heads` has entropy in bits, distance in tokens, weights from 0 to 1.

    Text, model, layers, heads and errors are as for `inspect`.
    """
    kinds = HeadKindsReducer()
    return _found(
        "heads", text, opened(text, model, tokenizer, loading), selected(layers, heads),
        lambda rows, _: [HeadStatistics(rows)], lambda rows, call: [HeadStatistics(rows), kinds],
    )  # fmt: skip


def top(
    text: str | None = None, model: Model = DEFAULT_MODEL, tokenizer: Any = None, *,
    k: int = 5, token: str | int | None = None, mean: bool = False, layers: Numbers = None, heads: Numbers = None,
    **loading: Unpack[Opening],
) -> Findings:  # fmt: skip
    """The k keys that each query attends to most, as `attn top`: `.top` has a row for each, with weight and score.

    token   the queries: a word of the text, its number, or None for all; AttnError for a word that isn't there
    mean    take the mean over the chosen heads of each layer

    Text, model, layers and heads are as for `inspect`.
    """
    chosen = selected(layers, heads)
    together = None if mean else RowKeys(k, all_heads=True)
    return _found("top", text, opened(text, model, tokenizer, loading), chosen, RowKeys(k, mean), together, token=token)


def matrix(
    text: str | None = None, model: Model = DEFAULT_MODEL, tokenizer: Any = None, *,
    token: str | int | None = None, mean: bool = False, layers: Numbers = None, heads: Numbers = None,
    **loading: Unpack[Opening],
) -> Findings:  # fmt: skip
    """Weights and scores, as `attn matrix`: `.arrays["weights"]` and `["scores"]` `[layers, heads, n, m]`.

    token   the n queries: a word of the text, its number, or None for all
    mean    take the mean over the chosen heads of each layer

    Text, model, layers and heads are as for `inspect`. Scores are -inf where masked. LimitError before the model runs
    where n x m numbers a head are more than the free memory.
    """
    source, chosen = opened(text, model, tokenizer, loading), selected(layers, heads)

    def check(prompt: Prompt, rows: Rows) -> None:
        kept = sum(1 if mean else layer.heads for layer in source.planned_layers(chosen))
        n, m = len(prompt.tokens if rows is None else rows), len(prompt.tokens)
        check_memory(
            2 * 4 * kept * n * m, f"weights and scores of {counted(kept, 'head')}, {n:,} x {m:,} each",
            "choose with layers=, heads= or token=, or add mean=True",
        )  # fmt: skip

    kinds = HeadKindsReducer()

    def standing_out(rows: Rows, call: Call) -> list[Reducer]:
        return [kinds, MatrixOf((_LARGEST, _LARGEST))]

    def whole(rows: Rows, call: Call) -> list[Reducer]:
        return [MatrixOf(kinds=("weights", "scores"), rows=rows, mean_heads=mean)]

    return _found(
        "matrix", text, source, chosen, whole,
        standing_out if token is None and not mean else None, token=token, check=check,
    )  # fmt: skip


def record(
    text: str,
    model: Model = DEFAULT_MODEL,
    tokenizer: Any = None,
    *,
    layers: Numbers = None,
    heads: Numbers = None,
    **loading: Unpack[Opening],
) -> Recording:
    """The recording of a model's pass over a text, kept in memory; arguments and errors are as for `inspect`."""
    return record_source(opened(text, model, tokenizer, loading), text, selection=selected(layers, heads))


def _prompt(source: Source, text: str | None) -> Prompt:
    return source.read(["" if text is None else text])[0]


def _found(
    command: str, text: str | None, source: Source, selection: Selection,
    reducers: Callable[[Rows, Call], Sequence[Reducer]],
    unchosen: Callable[[Rows, Call], Sequence[Reducer]] | None = None, *, token: str | int | None = None,
    check: Callable[[Prompt, Rows], None] = lambda prompt, rows: None,
) -> Findings:  # fmt: skip
    """The parts that reducers make of a text."""
    prompt = _prompt(source, text)
    pick = None if token is None else str(token)
    check(prompt, picked_rows(pick, prompt)[0])
    of_screen = unchosen if selection == ALL and source.about["type"] != "table" else None
    summaries, drawn = list[Summary](), list[Summary]()

    def visit(call: Call) -> None:
        rows = rows_of_stream(pick, call.queries, prompt.text)
        if rows == []:  # another stream has it
            return
        own = reducers(rows, call)
        summary = reduce(call, *own, *(() if of_screen is None else of_screen(rows, call)))
        summaries.append(replace(summary, parts=summary.parts[: len(own)]))
        drawn.append(with_one_head(replace(summary, parts=summary.parts[len(own) :])))

    source.each([prompt], selection, visit)
    report = Report(command, source.about, (prompt,), tuple(summaries))
    return Findings(report, report if of_screen is None else replace(report, summaries=with_one_matrix(drawn)))
