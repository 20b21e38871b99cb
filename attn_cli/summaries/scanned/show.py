"""attn scan show: the heads of a scan, by kind or by a statistic; all that a scan knows of one head."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from attn_cli.summaries.answer import Answer, Next, Shape, Table, head_choice
from attn_cli.summaries.ranking import Ranking
from attn_cli.text import counted, excerpt, listed, visible

Row = dict[str, Any]
Place = tuple[str, int, int, str, int]
"""A head: stack (self, encoder ...), layer, number, and module and its run where a layer has several."""

PLACE = ("stream?", "module?", "call?", "layer", "head", "kv_head")
KIND = ("documents", "share", "share_low", "share_high", "weight", "baseline", "control", "certainty")
ESTIMATE = ("document_mean", "low", "high", "standard_deviation", "q05", "q25", "q50", "q75", "q95")
CORPUS = {"corpus": ("folder", "model", "documents", "tokens"), "rejected": ("reason", "count"), "inputs": ("file",)}
SORTED = ("document_mean", "low", "high", "q05", "q50", "q95")
_HEADS = Shape(
    "attn.scan_heads/3",
    "The heads of a scan, in the order asked for. Means are over documents.",
    {
        "heads": (*PLACE, "kind", *KIND, *(f"{name}?" for name in SORTED)),
        "statistics": (*PLACE, "statistic", "documents", *ESTIMATE),
        "kinds": ("kind", "count"),
        **CORPUS,
    },
    screen={
        "heads": ("head", "kind", "share", "share_low", "share_high", "weight", "baseline", "certainty"),
        "kinds": ("kind", "count"),
    },
    bars=("share",),
    legend=("share: non-sink attention on the kind's targets; low, high: 95 % interval",
            "certain: probability that the mean is enough for the name"),
)  # fmt: skip
_BY_NUMBER = replace(
    _HEADS,
    screen={"heads": ("head", *SORTED, "kind")},
    bars=(),
    legend=("low, high: 95 % interval of the mean over documents; p5, p50, p95: percentiles",),
)
EXAMPLE = (
    *("kind", "rank", "weight", "document", "piece", "file", "record", "query", "key", "query_token", "key_token"),
    *("text", "whole", "first", "last", "query_start", "query_end", "key_start", "key_end"),
)
_TOKENS = ("token", "times", "rows", "exact")
_HEAD = Shape(
    "attn.scan_head/3",
    "All that a scan knows of one head. input is empty.",
    {
        "examples": (*PLACE, *EXAMPLE),
        "head": (*PLACE, "kind", *KIND),
        "statistics": (*PLACE, "statistic", "documents", *ESTIMATE),
        "kinds": ("kind", *KIND, "named"),
        "distances": ("range", "nearest", "farthest", "weight", "baseline"),
        "positions": ("range", "first", "last", "weight", "baseline"),
        "tokens_to": _TOKENS,
        "tokens_from": _TOKENS,
        "parts": ("part", "weight", "baseline"),
        **CORPUS,
    },
    screen={
        "statistics": ("statistic", "document_mean", "low", "high", "q05", "q50", "q95"),
        "kinds": ("kind", "share", "share_low", "share_high", "baseline", "certainty"),
        "examples": ("kind", "weight", "query_token", "key_token", "text"),
        "distances": ("range", "weight", "baseline"),
        "tokens_to": ("token", "times", "rows"),
        "parts": ("part", "weight", "baseline"),
    },
    bars=("weight",),
    legend=("kinds: share of non-sink attention on targets; baseline: of uniform attention",
            "tokens to: keys of rows' largest weights; ranges: tokens back from the query"),
)  # fmt: skip
SHAPES = {"scan_heads": _HEADS, "scan_head": _HEAD}
_HEADS_SHOWN, _ROWS_SHOWN = 20, 10


def corpus_tables(
    folder: str, model: str, progress: Mapping[str, Any], files: Sequence[str]
) -> tuple[dict[str, Table], str]:
    """The tables `corpus`, `rejected` and `inputs` of a scan, and what they say in a sentence."""
    documents, tokens, reasons = progress["documents"], progress["tokens"], progress["reasons"]
    tables = {
        "corpus": Table.of([{"folder": folder, "model": model, "documents": documents, "tokens": tokens}]),
        "rejected": Table({"reason": list(reasons), "count": list(reasons.values())}),
        "inputs": Table({"file": files}),
    }
    words = f"over {counted(documents, 'document')}, {tokens:,} tokens"
    if lost := sum(reasons.values()):
        named = listed([f"{count:,} {excerpt(reason, 40)}" for reason, count in reasons.items()], 4)
        words += f", {counted(lost, 'record')} not read ({named})"
    return tables, words + (f": {excerpt(listed(files, 3), 60)}" if files else "")


def show_head(folder: str, row: Row) -> Next:
    """The command that shows the head of a row of the scan in `folder`."""
    return Next("scan", ("show", folder), ("--head", head_choice(row)), takes_model=False)


def heads_answer(
    folder: str,
    heads: Sequence[Row],
    statistics: Sequence[Row],
    corpus: tuple[Mapping[str, Table], str],
    *,
    ranking: Ranking | None,
    kind: str | None,
    top: int | None,
) -> Answer:
    """The heads of a scan in the order of `ranking`, else by kind; of one `kind` alone if that is given."""
    counts = Counter(row["kind"] for row in heads)
    rows = [row for row in heads if kind in (None, row["kind"])]
    unsure = 0 if ranking else sum((row["certainty"] or 1.0) < 0.95 for row in rows)
    if ranking is not None:
        rows = ranking.of(rows, lambda row: float("nan") if row["document_mean"] is None else row["document_mean"])
    rows = rows[:top]
    places = {_place(row) for row in rows}
    some = f"{len(rows)} of {len(heads)} heads"
    if kind is not None:
        finding = f"{some} {'is' if len(rows) == 1 else 'are'} of the kind {kind}"
    elif ranking is not None:
        has_numbers = any(row["document_mean"] is not None for row in rows)
        finding = f"{some} {ranking.words}" if has_numbers else f"no head has a number for {ranking.heading} here"
    elif rows and rows[0]["share"] is not None:
        first = rows[0]
        finding = f"head {head_choice(first)} is the clearest {first['kind']} head: share {first['share']:.2f}"
    else:
        finding = "no head is of any kind"
    findings = (finding, *[f"{counted(unsure, 'name')} less than 95 % certain"] * bool(unsure), corpus[1])
    tables = {
        "heads": Table.of(rows),
        "statistics": Table.of(row for row in statistics if _place(row) in places),
        "kinds": Table({"kind": [name for name, _ in counts.most_common()],
                        "count": [count for _, count in counts.most_common()]}),
        **corpus[0],
    }  # fmt: skip
    shape = _HEADS if ranking is None else _BY_NUMBER
    return Answer(shape, findings, tables, shown=top or _HEADS_SHOWN, next=show_head(folder, rows[0]) if rows else None)


def _place(row: Row) -> tuple[object, ...]:
    return tuple(row.get(name.rstrip("?")) for name in PLACE)


def head_answer(
    folder: str, model: str, head: Row, tables: Mapping[str, Sequence[Row]], corpus: tuple[Mapping[str, Table], str]
) -> Answer:
    """One head of a scan: its kind, and the rows that the scan has of it, examples of its kind first."""
    examples = sorted(tables["examples"], key=lambda example: example["kind"] != head["kind"])
    name = head_choice(head)
    if head["share"] is not None:
        certainty = "" if head["certainty"] is None else f", {head['certainty']:.0%} certain"
        finding = f"head {name} is a {head['kind']} head{certainty}: share {head['share']:.2f}"
    else:
        finding = f"head {name} is {'of no kind' if head['kind'] == 'none' else head['kind']}"
    onwards = Next("scan", ("show", folder), ("--kind", head["kind"]), takes_model=False)
    if head["share"] is None:
        onwards = Next("scan", ("show", folder), ("--sort", "induction", "-k", "10"), takes_model=False)
    opened = next((each["text"] for each in examples if each["whole"] and visible(each["text"]) == each["text"]), None)
    if opened is not None:
        onwards = Next("matrix", (opened,), ("-m", model, "-H", name), takes_model=False)
    rows = {**tables, "examples": examples, "head": [head]}
    rows["distances"] = sorted(rows["distances"], key=lambda row: -(row["weight"] or 0.0))
    return Answer(
        _HEAD,
        (finding, corpus[1]),
        {name: Table.of(rows[name]) for name in _HEAD.tables if name in rows} | {**corpus[0]},
        shown=_ROWS_SHOWN,
        next=onwards,
    )


def range_text(first: int | None, last: int | None) -> str:
    """A range as text: `3`, `9-16`, `1025-`, `-16 to -9`; distances of keys after the query are negative."""
    if first == last:
        return f"{first}"
    between = " to " if (first or 0) < 0 or (last or 0) < 0 else "-"
    return f"{'' if first is None else first}{between}{'' if last is None else last}".strip()
