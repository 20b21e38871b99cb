"""One line in a notebook: what a command answers, as an object that shows itself and gives its rows and arrays."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from attn_cli.call import Call
from attn_cli.errors import InputError
from attn_cli.model.source import Predicting
from attn_cli.notebook.models import Asked, one_line
from attn_cli.prompt import Prompt
from attn_cli.recording import Recording
from attn_cli.sources.memory import check_memory, free_memory
from attn_cli.summaries.answer import Answer
from attn_cli.summaries.answers import compare as of_compare
from attn_cli.summaries.answers import kinds as of_kinds
from attn_cli.summaries.answers import knock as of_knock
from attn_cli.summaries.answers import plane as of_plane
from attn_cli.summaries.parts import answer as of_parts
from attn_cli.summaries.parts.text_parts import CUTS, TextPart, parts_of
from attn_cli.summaries.reduce import Reducer, Summary, reduce
from attn_cli.summaries.reducers import record as of_record
from attn_cli.summaries.reducers.heads import HeadStatistics
from attn_cli.summaries.reducers.keys import ReceivedShares, RowKeys
from attn_cli.summaries.reducers.kinds.reducer import HeadKindsReducer
from attn_cli.summaries.reducers.matrix import MatrixOf
from attn_cli.summaries.report import Report
from attn_cli.summaries.told.overview import overview_of, word_readers
from attn_cli.summaries.told.story import looked_and_told
from attn_cli.text import counted
from attn_cli.token_syntax import picked_rows, rows_of_stream
from attn_cli.views.answers.deciding_rows import with_reading
from attn_cli.views.drawing.image import drawn_of_image
from attn_cli.views.notebook import Findings

Rows: TypeAlias = Sequence[int] | None
Reducers: TypeAlias = Callable[[Rows, Call], Sequence[Reducer]]
Pick: TypeAlias = str | int | None  # the queries that are looked at: a word of the text, its number, None for all

_SHOWN, _BOTH = (64, 64), ("weights", "scores")  # the most queries and keys that are drawn; the numbers of a matrix
_PAGE = 256  # tokens of a text that a notebook shows as a page; a longer one makes the file large


@one_line(predicts=None)
def inspect(asked: Asked) -> Findings:
    """The overview of a text, as `attn inspect`: what the answer needs, what heads do, and all of it as a page."""
    keeps = [of_record.Record(of_record.MemoryBudget(free_memory()))] if len(asked.prompt.tokens) <= _PAGE else []
    report = _looked(asked, "inspect", HeadStatistics(), HeadKindsReducer(), ReceivedShares(), *keeps)
    kept = replace(report, summaries=tuple(summary.without(of_record.Recorded) for summary in report.summaries))
    told = of_record.told_recording(asked.source, asked.prompt, report.summaries, report.story) if keeps else None
    return Findings(overview_of(kept, on_screen=False), overview_of(kept, on_screen=True), told)


@one_line(predicts=None)
def record(asked: Asked) -> Recording:
    """All that a model does with a text, in memory, and shown as a page: `.head(5, 9)`, `.save("run.attn")`."""
    budget = of_record.MemoryBudget(free_memory())
    return of_record.record(asked.source, asked.prompt, selection=asked.selection, budget=budget, tells=True)


@one_line()
def heads(asked: Asked) -> Findings:
    """A row per head, as `attn heads`: its entropy in bits, distance in tokens, and mean weights from 0 to 1."""
    kinds = [HeadKindsReducer()] if asked.chooses else []
    return _found(asked, "heads", lambda *of: [HeadStatistics(of[0])], lambda *of: [HeadStatistics(of[0]), *kinds])


@one_line()
def top(asked: Asked, *, token: Pick = None, k: int = 5, mean: bool = False) -> Findings:
    """The k keys that each query attends to most, as `attn top`, with weight and score.

    token     the queries: a word of the text, its number, or None for all
    k         the limit: how many keys of each
    mean      take the mean over the chosen heads of each layer"""
    keys, every, chooses = RowKeys(k, mean), RowKeys(k, all_heads=True), asked.chooses and not mean
    shown = every if chooses else RowKeys(k, mean, abridges=True)
    found = _found(asked, "top", lambda *of: [*keys(*of), *(every(*of) if chooses else ())], shown, token)
    return replace(found, report=with_reading(found.report))


@one_line(predicts=None)
def matrix(asked: Asked, *, token: Pick = None, mean: bool = False) -> Findings:
    """Weights and scores, as `attn matrix`: `.arrays["weights"]` and `["scores"]` `[layers, heads, n, m]`.

    token     the n queries: a word of the text, its number, or None for all
    mean      take the mean over the chosen heads of each layer

    Scores are -inf where masked. LimitError before the model runs where the numbers are more than the free memory."""
    kept = sum(1 if mean else layer.heads for layer in asked.source.planned_layers(asked.selection))
    rows, m = picked_rows(None if token is None else str(token), asked.prompt)[0], len(asked.prompt.tokens)
    n = m if rows is None else len(rows)
    subject = f"weights and scores of {counted(kept, 'head')}, {n:,} x {m:,} each"
    check_memory(2 * 4 * kept * n * m, subject, "choose with layers=, heads= or token=, or add mean=True")

    def shown(rows: Rows, call: Call) -> list[Reducer]:
        return [MatrixOf(*drawn_of_image(rows, call, _SHOWN), mean_heads=mean)]

    found = _found(asked, "matrix", lambda *of: [MatrixOf(kinds=_BOTH, rows=of[0], mean_heads=mean)], shown, token)
    if asked.chooses and token is None and not mean:
        found = replace(found, screen=overview_of(_looked(asked, "matrix", HeadKindsReducer()), on_screen=False))
    return found


@one_line()
def compare(asked: Asked, text2: str, *, word: Pick | Sequence[str | int] = None) -> Findings:
    """One word in two texts, as `attn compare`: how alike its vectors are, and which tokens pull it where.

    word      a word, its number, or one for each text; None for the one word that both have"""
    prompts = [asked.prompt, *asked.source.read([text2])]
    words = [] if word is None else [str(word)] if isinstance(word, str | int) else list(map(str, word))
    journeys, notes = of_compare.journeys_of(asked.source, prompts, words, asked.selection)
    return _told(asked, of_compare.comparison_of(*journeys), prompts, notes)


@one_line()
def plane(asked: Asked, *, unit: bool = False) -> Findings:
    """The words of a text as points in the plane, before and after attention, as `attn plane`.

    unit      give every vector the length 1 first, to compare directions alone"""
    steps, every = list[Any](), range(len(asked.prompt.tokens))
    asked.source.follow(asked.prompt, every, asked.selection, lambda call: None, steps.append)
    return _told(asked, of_plane.plane([asked.prompt], [steps], unit=unit))


@one_line()
def head_kinds(asked: Asked, *, seed: int = 0) -> Findings:
    """The kind of every head of a model (induction, previous token ...), as `attn heads --kinds`.

    text      the text to judge on; None for random tokens written twice, which `seed` draws"""
    prompts, drawn = (asked.source.repeated(seed), seed) if asked.text is None else ([asked.prompt], None)
    report = of_kinds.judge_heads(asked.source, prompts, drawn, asked.selection)
    return Findings(replace(report, answer=of_kinds.kinds_of(report.summaries, prompts, drawn)))


@one_line(predicts=True)
def knock(
    asked: Asked,
    *,
    k: int = 12,
    rows: Rows = None,
    everywhere: bool = False,
    mean: bool = False,
    together: bool = False,
) -> Findings:
    """What the answer of a model loses without each of its heads, in bits, as `attn knock`.

    k         the limit: how many heads are shown
    rows      the rows in which heads are ablated; None for those that predict the answer
    everywhere  ablate in all rows, and measure the change of the text's mean loss, too
    mean      ablate a head to its mean output over the other rows, not to 0
    together  ablate all chosen heads at once, too"""
    if not isinstance(asked.source, Predicting):
        raise InputError("heads are ablated in a model, and this source runs none", "choose a model")
    ablation = of_knock.Ablation(rows, everywhere, mean, together)
    return _told(asked, of_knock.knock(asked.source, asked.prompt, ablation, selection=asked.selection, shown=k))


@one_line(predicts=True)
def read_parts(
    asked: Asked, *, parts: Sequence[TextPart] | str = "lines", rows: Rows = None, everywhere: bool = False
) -> Findings:
    """Which parts of a text its answer was read from, and what it loses without each, as `attn parts`.

    parts     "lines", "paragraphs", "sentences" or "words", or parts of a prompt as `parts_of` makes them
    rows      the rows that read; None for those that chose what was generated, else those of the last part
    everywhere  hide a part from all rows after it, and not only from the rows that read"""
    cut = parts if isinstance(parts, str) else "parts"
    if cut != "parts" and cut not in CUTS:
        raise InputError(f"no way to cut a text is called {cut!r}", f"parts= takes {', '.join(CUTS)}")
    cuts = parts_of(asked.prompt, cut) if isinstance(parts, str) else parts
    how: Any = {"rows": rows, "everywhere": everywhere, "selection": asked.selection, "cut": cut}
    return _told(asked, of_parts.read_parts(asked.source, asked.prompt, cuts, **how))


def _told(asked: Asked, answer: Answer, prompts: Sequence[Prompt] = (), notes: Sequence[str] = ()) -> Findings:
    return Findings(Report(answer.name, asked.source.about, tuple(prompts or [asked.prompt]), (), tuple(notes), answer))


def _looked(asked: Asked, command: str, *reducers: Reducer) -> Report:
    def every(call: Call) -> list[Reducer]:
        return [*reducers, MatrixOf(*drawn_of_image(None, call, _SHOWN)), *word_readers(call)]

    summaries, story, notes = looked_and_told(asked.source, asked.prompt, asked.selection, every, free_memory())
    return Report(command, asked.source.about, (asked.prompt,), tuple(summaries), notes, story=story)


def _found(asked: Asked, command: str, reducers: Reducers, of_screen: Reducers, token: Pick = None) -> Findings:
    """The parts that `reducers` make of every call, in the picked queries; a screen has those of `of_screen`."""
    word, summaries, drawn = None if token is None else str(token), list[Summary](), list[Summary]()
    picked_rows(word, asked.prompt)  # raises before the model runs

    def visit(call: Call) -> None:
        rows = rows_of_stream(word, call.queries, asked.prompt.text)
        if rows != []:  # else another stream has it
            own = reducers(rows, call)
            parts = (summary := reduce(call, *own, *of_screen(rows, call))).parts
            summaries.append(replace(summary, parts=parts[: len(own)]))
            drawn.append(replace(summary, parts=parts[len(own) :]))

    asked.source.each([asked.prompt], asked.selection, visit)
    report = Report(command, asked.source.about, (asked.prompt,), tuple(summaries))
    return Findings(report, replace(report, summaries=tuple(drawn)))
