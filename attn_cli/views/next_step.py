"""The last line of a screen: `next: attn ...`, the command that asks what a reader of this answer will ask next.

A command that works when it is pasted: with the user's own text, model and options, quoted for a shell. There is none
where that can't be: for many texts, for what came through a pipe and can't be given again, and where four lines of the
screen, each but the last ending in a backslash, would not hold it.
"""

from collections.abc import Callable, Iterator

import numpy as np

from attn_cli.summaries.against.changed_keys import ChangedKeys
from attn_cli.summaries.against.head_changes import HeadChanges
from attn_cli.summaries.answers.check import Check
from attn_cli.summaries.answers.kinds import KindMap
from attn_cli.summaries.answers.knock import Knock
from attn_cli.summaries.answers.nearest import Neighbours
from attn_cli.summaries.answers.parts import PartsRead
from attn_cli.summaries.answers.scan_differences import ScanDifferences
from attn_cli.summaries.answers.scan_head import ScanHead
from attn_cli.summaries.answers.scan_heads import ScanHeads
from attn_cli.summaries.answers.scanned import ScannedPlace
from attn_cli.summaries.answers.through import Through
from attn_cli.summaries.reduce import Kind, Summary
from attn_cli.summaries.reducers.heads.head_statistics import Heads
from attn_cli.summaries.reducers.heads.statistics import STATISTICS
from attn_cli.summaries.reducers.kinds import CONTENT, KINDS
from attn_cli.summaries.reducers.matrix import Matrix
from attn_cli.summaries.reducers.overall import Overall
from attn_cli.summaries.reducers.top import Top
from attn_cli.summaries.reducers.why import Why
from attn_cli.summaries.report import Report
from attn_cli.views.answers.heads import head_rows, sharpest
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import HIDDEN, MODEL, on_given_texts, on_same_input, on_texts
from attn_cli.views.shell_lines import on_lines

Words = list[str]

_OUTPUT = {"format", "json", "output", "force", "color", "quiet", "verbose", "plain"}
_AGAINST = {"against", "against_model", "against_dtype"}
_CONTENT = tuple(kind.name for kind in KINDS if kind.rank == CONTENT)
_SINK = 0.3  # a key with so much of all weight hides the others
_FEW_ROWS = 6  # a walk through more rows fills many screens
_LARGE = ("cost", "-n", "4096", "--heads", "32", "--dim", "128", "--layers", "32")  # of about 7 billion parameters
_EXAMPLE = "he sat on the river bank"


def next_line(report: Report, invocation: Invocation, screen: Screen) -> str | None:
    """The line, None where there is none."""
    rule = _RULES.get(report.command)
    words = None if rule is None or report.index is not None else rule(report, invocation)
    if words is None:
        return None
    line = on_lines(words, screen.width, "next: attn")
    return None if line is None or (screen.ascii_only and not line.isascii()) else line


def _parts(report: Report, kind: type[Kind]) -> Iterator[tuple[Summary, Kind]]:
    """The parts of that class with their calls."""
    return ((summary, part) for summary in report.summaries if (part := summary.part(kind)) is not None)


def _head(summary: Summary, at: int) -> str:
    """The name of a head: 18.6 for head 6 of layer 18."""
    return f"{summary.place.layer}.{summary.place.heads[at]}"


def _of_heads(report: Report, invocation: Invocation) -> Words | None:
    """After heads in numbers: the matrix of the first one, as sorted, else of the sharpest."""
    rows = head_rows(report.summaries)
    if not rows:
        return None
    ranking = report.ranking
    first = sharpest(rows, 1) if ranking is None else ranking.of(
        rows, lambda row: float(row.heads.statistics[ranking.column][row.at]))  # fmt: skip
    return on_same_input("matrix", report, invocation, "-H", _head(first[0].summary, first[0].at))


def _of_overview(report: Report, invocation: Invocation) -> Words | None:
    """After the overview: the matrix of one head; after a walk through a layer, its matrices."""
    if next(_parts(report, Heads), None) is None:
        return None
    for summary, matrix in _parts(report, Matrix):
        if matrix.reason and matrix.heads:  # the head that is most worth a look
            return on_same_input("matrix", report, invocation, "-H", f"{summary.place.layer}.{matrix.heads[0]}")
    return _of_heads(report, invocation)


def _of_matrix(report: Report, invocation: Invocation) -> Words | None:
    """After a matrix: the keys that its rows attend to most."""
    summary, matrix = next(_parts(report, Matrix))
    rows = [] if matrix.rows is None else invocation.words({"token"})
    if matrix.averaged:
        return on_same_input("top", report, invocation, *rows, "-l", str(summary.place.layer), "--mean")
    return on_same_input("top", report, invocation, *rows, "-H", _head(summary, 0))


def _of_top(report: Report, invocation: Invocation) -> Words | None:
    """After the keys of queries: why the largest of them is; of a mean over heads, what each head of it does."""
    if next(_parts(report, Top), None) is None:  # a text of many queries
        return _of_overall(report, invocation)
    summary, top = max(_parts(report, Top), key=lambda pair: float(pair[1].weights.max(initial=0)))
    at, row = np.unravel_index(np.argmax(_without_sinks(summary, top)), top.weights.shape)[:2]
    query = ["-t", str(top.rows[row])]
    if report.merged_from is not None or summary.place.stream != "self":
        return on_same_input("matrix", report, invocation, "-l", str(summary.place.layer))
    if top.averaged:
        return on_same_input("top", report, invocation, *query, "-l", str(summary.place.layer))
    if summary.place.way not in ("computed", "registry"):
        return on_same_input("matrix", report, invocation, "-H", _head(summary, int(at)))
    plain = Invocation(tuple(given for given in invocation.given if given.name not in HIDDEN))
    return on_same_input("top", report, plain, *query, "-H", _head(summary, int(at)), "--why")


def _without_sinks(summary: Summary, top: Top) -> np.ndarray:
    """The weights of the heaviest keys `[h, r, k]`; half of those of first and special tokens."""
    keys = np.array([0.5 if token.special or token.index == 0 else 1.0 for token in summary.keys] + [0.0])
    rows = np.array([0.5 if summary.queries[row].special else 1.0 for row in top.rows])
    return top.weights * keys[top.keys] * rows[:, None]


def _of_why(report: Report, invocation: Invocation) -> Words | None:
    """After a cell explained: whether its head matters; in a table, which predicts nothing, its matrix."""
    summary, why = next(_parts(report, Why))
    head = _head(summary, why.cells[0].head if why.cells else 0)
    if report.batch is not None:
        return _of_compute(report, invocation)
    reads_text = any(invocation.has(name) for name in ("text", "file", "messages"))
    predicts = report.source["type"] not in ("table", "demonstration") and report.streams == ["self"] and reads_text
    return on_same_input(
        "knock" if predicts and not invocation.has("pair") else "matrix", report, invocation, "-H", head
    )


def _of_overall(report: Report, invocation: Invocation) -> Words | None:
    """After the keys of all queries together: the same without the key that takes most of it, else a single query."""
    _, overall = next(_parts(report, Overall))
    kept = invocation.words({"layer", "head", "mean", "by"})
    if not invocation.has("hide") and overall.shares[0, 0] > _SINK:
        return on_same_input(
            "top", report, invocation, *kept, "--overall", "--hide", str(overall.keys[0, 0]), "--rescale"
        )
    return on_same_input("top", report, invocation, *kept, "-t", "-1")


def _of_head_changes(report: Report, invocation: Invocation) -> Words | None:
    """After the change of every head: which keys of the last row the first one, as sorted, moves between."""
    rows = [row | {"last": part.last_row} for summary, part in _parts(report, HeadChanges)
            for row in part.records(summary)]  # fmt: skip
    first = (rows if report.ranking is None else report.ranking.of_records(rows))[:1]
    if not first or first[0]["last"] is None:
        return None
    head, row = f"{first[0]['layer']}.{first[0]['head']}", str(first[0]["last"])
    return on_same_input("top", report, invocation, *invocation.words(_AGAINST), "-H", head, "-t", row)


def _of_changed_keys(report: Report, invocation: Invocation) -> Words | None:
    """After the keys whose weights change: the change of all cells of one head."""
    summary, changed = next(_parts(report, ChangedKeys))
    which = ["-l", str(summary.place.layer), "--mean"] if changed.averaged else ["-H", _head(summary, 0)]
    return on_same_input("matrix", report, invocation, *invocation.words(_AGAINST), *which)


def _of_changes(report: Report, invocation: Invocation) -> Words | None:
    """After the change of all cells: that of every head."""
    return on_same_input("heads", report, invocation, *invocation.words(_AGAINST))


def _of_through(report: Report, invocation: Invocation) -> Words | None:
    """After shares through all layers: what the last layer alone does."""
    assert isinstance(report.answer, Through)
    row = ["-t", str(report.answer.rows[0])] if len(report.answer.rows) == 1 else ["--overall"]
    return on_same_input("top", report, invocation, *row, "-l", "-1", "--mean", "--by", "written")


def _of_knock(report: Report, invocation: Invocation) -> Words | None:
    """After heads silenced: what the most needed one looks at, in the rows that choose."""
    assert isinstance(report.answer, Knock)
    knock = report.answer
    place = knock.heads[0].place
    head = f"{place.layer}.{place.head}"
    if place.stream != "self" or knock.everywhere:
        return on_same_input("matrix", report, invocation, "-H", head)
    return on_same_input("top", report, invocation, "-H", head, "-t", str(knock.rows[-1]))


def _of_parts(report: Report, invocation: Invocation) -> Words | None:
    """After the parts of a text: which heads the answer rests on; where none was asked about, what a part looks at."""
    assert isinstance(report.answer, PartsRead)
    hidden = report.answer.hidden
    if hidden is not None and hidden.target is not None:
        rows = invocation.words({"token"}) if report.answer.asked == "picked" else []
        return on_same_input("knock", report, invocation, *rows)
    tokens = [read.part.tokens for read in report.answer.order if read.part.tokens]
    if not tokens or report.answer.read.stream != "self":
        return on_same_input("inspect", report, invocation)
    return on_same_input("top", report, invocation, "-t", str(tokens[0][-1]), "-l", "-1", "--mean")


def _of_kinds(report: Report, invocation: Invocation) -> Words | None:
    """After kinds of heads: the matrix of a named one, induction first; of random tokens, another draw."""
    assert isinstance(report.answer, KindMap)
    if report.answer.seed is not None:
        return ["heads", "--kinds", *invocation.words(MODEL), "--seed", str(report.answer.seed + 1)]
    named = [
        (int(kind), summary, at)
        for summary, part in report.answer.parts
        for at, kind in enumerate(part.judged.kind.tolist())
        if kind >= 0
    ]
    if not named:
        return on_same_input("heads", report, invocation)
    _, summary, at = min(named, key=lambda each: each[0])
    return on_same_input("matrix", report, invocation, "-H", _head(summary, at))


def _of_layers(report: Report, invocation: Invocation) -> Words | None:
    """After the map of a model: the overview of the text that it read."""
    return on_same_input("inspect", report, invocation)


def _of_compare(report: Report, invocation: Invocation) -> Words | None:
    """After one word in two contexts: all words of both on two axes."""
    return on_given_texts("plane", [invocation.value("first"), invocation.value("second")], invocation)


def _of_plane(report: Report, invocation: Invocation) -> Words | None:
    """After words on two axes: a word that two texts share, compared; else the overview of the first text."""
    texts: list[str | None] = list(invocation.words({"texts"}))
    shared = _shared_word(report) if len(texts) == 2 else None
    if shared is not None:
        return on_given_texts("compare", texts, invocation, "--word", shared)
    return on_given_texts("inspect", texts[:1], invocation)


def _shared_word(report: Report) -> str | None:
    """The longest word that stands once in each of two texts."""
    first, second = ([token.text.lower() for token in prompt.tokens if not token.special] for prompt in report.prompts)
    words = [word for word in first if word.isalpha() and first.count(word) == second.count(word) == 1]
    return max(words, key=len, default=None)


def _of_learn(report: Report, invocation: Invocation) -> Words | None:
    """After learning: the words of its texts on two axes."""
    return on_given_texts("plane", list(invocation.words({"texts"})), invocation)


def _of_nearest(report: Report, invocation: Invocation) -> Words | None:
    """After the words nearest to some: those nearest to the first of them."""
    assert isinstance(report.answer, Neighbours)
    return on_texts("nearest", report.answer.words[:1], invocation.words({"model"})) if report.answer.words else None


def _of_compute(report: Report, invocation: Invocation) -> Words | None:
    """After attention from scratch: the same step by step; after a check, the first row that is wrong."""
    words = invocation.words_without(_OUTPUT | _ANSWERS)
    if report.batch != () or "-" in words or not report.summaries:
        return None
    for head in (head for _, part in _parts(report, Check) for head in part.heads):
        if head.first_bad is not None:
            chosen = [] if head.head is None or invocation.has("head") else ["-H", str(head.head)]
            return ["compute", *words, *chosen, "--steps", "-t", str(head.first_bad[0])]
    rows = ["-t", "0"] if len(report.summaries[0].queries) > _FEW_ROWS else []
    return ["compute", *words, "--steps", *rows]


_ANSWERS = {"steps", "why", "decode", "token", "expect", "expect_weights", "tol", "pool", "color_scale"}


def _of_steps(report: Report, invocation: Invocation) -> Words | None:
    """After every step in numbers: what the scale is for; after that of a text, its matrices."""
    if report.batch is not None:
        return ["scale"]
    return on_same_input("matrix", report, invocation, "-l", str(report.summaries[0].place.layer))


def _of_scan_heads(report: Report, invocation: Invocation) -> Words | None:
    """After the heads of a scan: the first of them, or the surest of those that find content.

    Where none is of a kind, those with most weight on its targets, if there is such a number.
    """
    answer = report.answer
    assert isinstance(answer, ScanHeads)
    heads = list(answer.heads)
    if answer.ranking is None and answer.kind is None:
        content = [head for head in heads if head.kind is not None and head.kind_name in _CONTENT]
        heads = sorted(content, key=lambda head: -head.kind.share if head.kind else 0.0) or heads
    if not heads and answer.kind in {each.heading for each in STATISTICS}:
        return ["scan", "show", answer.folder, "--sort", str(answer.kind)]
    return _scanned(answer.folder, heads[0].place) if heads else None


def _of_scan_head(report: Report, invocation: Invocation) -> Words | None:
    """After one head, whose examples have lines of their own: the heads of its kind, or those of induction."""
    answer = report.answer
    assert isinstance(answer, ScanHead)
    if answer.head.kind is not None:
        return ["scan", "show", answer.folder, "--kind", answer.head.kind_name]
    return ["scan", "show", answer.folder, "--sort", "induction", "-k", "10"]


def _of_scan_differences(report: Report, invocation: Invocation) -> Words | None:
    """After two scans: the head that differs most, in the second."""
    answer = report.answer
    assert isinstance(answer, ScanDifferences)
    return _scanned(answer.other, answer.differences[0].place) if answer.differences else None


def _scanned(folder: str, place: ScannedPlace) -> Words:
    stream = "" if place.stream == "self" else f"{place.stream}:"
    return ["scan", "show", folder, "--head", f"{stream}{place.layer}.{place.head}"]


_RULES: dict[str, Callable[[Report, Invocation], Words | None]] = {
    "inspect": _of_overview,
    "matrix": _of_matrix,
    "top": _of_top,
    "why": _of_why,
    "overall": _of_overall,
    "heads": _of_heads,
    "head_changes": _of_head_changes,
    "changed_keys": _of_changed_keys,
    "change_matrix": _of_changes,
    "through": _of_through,
    "kinds": _of_kinds,
    "knock": _of_knock,
    "parts": _of_parts,
    "scan_heads": _of_scan_heads,
    "scan_head": _of_scan_head,
    "scan_differences": _of_scan_differences,
    "layers": _of_layers,
    "compare": _of_compare,
    "plane": _of_plane,
    "learn": _of_learn,
    "nearest": _of_nearest,
    "compute": _of_compute,
    "check": _of_compute,
    "steps": _of_steps,
    "decode": lambda report, invocation: [*_LARGE],
    "cost": lambda report, invocation: ["scale"],
    "scale": lambda report, invocation: ["compute", _EXAMPLE, "--steps", "-t", "bank"],
    "env": lambda report, invocation: ["inspect", _EXAMPLE],
}
