"""attn scan show: the heads of a scan, by kind or by a statistic; one head; what differs in another scan."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from attn_cli.summaries.answer import Answer, Next, Shape, Table, head_choice
from attn_cli.summaries.ranking import Ranking
from attn_cli.text import counted, excerpt, listed, visible

if TYPE_CHECKING:
    from attn_cli.scans.results import ScanResults

Row = dict[str, Any]

LEAD = ("stream", "module", "call", "layer", "head", "kv_head")
_PLACE = ("stream?", "module?", "call?", "layer", "head", "kv_head")
KIND = ("documents", "share", "share_low", "share_high", "baseline", "control", "certainty")
ESTIMATE = ("document_mean", "low", "high", "standard_deviation", "q05", "q25", "q50", "q75", "q95")
WHERE = ("document", "piece", "file", "record")
_CORPUS = {"corpus": ("folder", "model", "documents", "tokens"), "rejected": ("reason", "count"), "inputs": ("file",)}
SORTED = ("document_mean", "low", "high", "q05", "q50", "q95")
_STATISTICS = (*_PLACE, "statistic", "documents", *ESTIMATE)
_HEADS = Shape(
    "attn.scan_heads/4",
    "The heads of a scan, in the order asked for. Means are over documents.",
    {
        "heads": (*_PLACE, "kind", *KIND, *(f"{name}?" for name in SORTED)),
        "statistics": _STATISTICS,
        "kinds": ("kind", "count"),
        **_CORPUS,
    },
    screen={
        "heads": ("head", "kind", "share", "share_low", "share_high", "baseline", "certainty"),
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
_HEAD = Shape(
    "attn.scan_head/4",
    "All that a scan knows of one head. input is empty.",
    {
        "examples": (*_PLACE, "percentile", "weight", *WHERE, "query", "key", "query_token", "key_token", "text",
                     "whole"),
        "head": (*_PLACE, "kind", *KIND),
        "statistics": _STATISTICS,
        "kinds": ("kind", *KIND, "named"),
        **_CORPUS,
    },
    screen={
        "statistics": ("statistic", "document_mean", "low", "high", "q05", "q50", "q95"),
        "kinds": ("kind", "share", "share_low", "share_high", "baseline", "certainty"),
        "examples": ("percentile", "weight", "query_token", "key_token", "text"),
    },
    legend=("kinds: share of non-sink attention on targets; baseline: of uniform attention",
            "at: % of documents with less of the kind; of each its largest weight on no sink"),
)  # fmt: skip
_DIFFERENCES = Shape(
    "attn.scan_differences/3",
    "Two scans, head by head. input is empty.",
    {
        "differences": (*_PLACE, "statistic", "document_mean", "other_mean", "difference", "low", "high", "effect",
                        "p_value", "adjusted_p_value", "differs"),
        "kinds": (*_PLACE, "kind", "other_kind"),
        "run": ("test", "level", "compared", "differ", "unmatched_heads"),
        **_CORPUS,
    },
    screen={
        "differences": ("head", "statistic", "document_mean", "other_mean", "difference", "low", "high", "effect"),
        "kinds": ("head", "kind", "other_kind"),
    },
    legend=("low, high: 95 % interval; effect: difference over documents' standard deviation",),
)  # fmt: skip
SHAPES = {"scan_heads": _HEADS, "scan_head": _HEAD, "scan_differences": _DIFFERENCES}
_HEADS_SHOWN, _EXAMPLES_SHOWN, _DIFFERENCES_SHOWN = 20, 14, 20
_AROUND = 60  # characters of a long text that are shown around query and key
_WHOLE = 300  # characters of a text that is shown whole


def _corpus(scan: "ScanResults") -> tuple[dict[str, Table], str]:
    """The tables `corpus`, `rejected` and `inputs` of a scan, and what they say in a sentence."""
    counts, files = scan.progress, [str(file["name"]) for file in scan.options["files"]]
    model = str(scan.options["model"])
    documents, tokens, reasons = counts["documents"], counts["tokens"], counts["reasons"]
    tables = {
        "corpus": Table.of([{"folder": scan.name, "model": model, "documents": documents, "tokens": tokens}]),
        "rejected": Table({"reason": list(reasons), "count": list(reasons.values())}),
        "inputs": Table({"file": files}),
    }
    words = f"over {counted(documents, 'document')}, {tokens:,} tokens"
    if "parts" not in scan.options:
        words += " so far"
    elif counts["missing"]:
        words += f"; {counts['missing']:,} of {counted(scan.options['parts'], 'part')} not done"
    if lost := counts["rejected"]:
        named = listed([f"{count:,} {excerpt(reason, 40)}" for reason, count in reasons.items()], 4)
        words += f", {counted(lost, 'record')} not read ({named})"
    return tables, words + (f": {excerpt(listed(files, 3), 60)}" if files else "")


def _show_head(folder: str, row: Row) -> Next:
    return Next("scan", ("show", folder), ("--head", head_choice(row)), takes_model=False)


def heads_answer(
    scan: "ScanResults",
    rows: Sequence[Row],
    statistics: Sequence[Row],
    *,
    ranking: Ranking | None,
    kind: str | None,
    top: int | None,
) -> Answer:
    """The heads of a scan, `rows` in the order of `ranking`, else by kind; of one `kind` alone if that is given."""
    tables, words = _corpus(scan)
    unsure = 0 if ranking else sum((row["certainty"] or 1.0) < 0.95 for row in rows)
    some = f"{len(rows)} of {len(scan.places)} heads"
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
    counts = Counter(scan.kind).most_common()
    return Answer(
        _HEADS if ranking is None else _BY_NUMBER,
        (finding, *[f"{counted(unsure, 'name')} less than 95 % certain"] * bool(unsure), words),
        {
            "heads": Table.of(rows),
            "statistics": Table.of(statistics),
            "kinds": Table({"kind": [name for name, _ in counts], "count": [count for _, count in counts]}),
            **tables,
        },
        shown=top or _HEADS_SHOWN,
        next=_show_head(scan.name, rows[0]) if rows else None,
    )


def head_answer(
    scan: "ScanResults", head: Row, statistics: Sequence[Row], kinds: Sequence[Row], examples: Sequence[Row]
) -> Answer:
    """One head of a scan: its kind, its numbers, and examples, the strongest first."""
    tables, words = _corpus(scan)
    name = head_choice(head)
    onwards = Next("scan", ("show", scan.name), ("--kind", head["kind"]), takes_model=False)
    if head["share"] is not None:
        certainty = "" if head["certainty"] is None else f", {head['certainty']:.0%} certain"
        finding = f"head {name} is a {head['kind']} head{certainty}: share {head['share']:.2f}"
    else:
        finding = f"head {name} is {'of no kind' if head['kind'] == 'none' else head['kind']}"
        onwards = Next("scan", ("show", scan.name), ("--sort", "induction", "-k", "10"), takes_model=False)
    opened = next((each["text"] for each in examples if each["whole"] and visible(each["text"]) == each["text"]), None)
    if opened is not None:
        onwards = Next("matrix", (opened,), ("-m", str(scan.options["model"]), "-H", name), takes_model=False)
    rows = {"examples": examples, "head": [head], "statistics": statistics, "kinds": kinds}
    named = {name: Table.of(of) for name, of in rows.items()}
    return Answer(_HEAD, (finding, words), {**named, **tables}, shown=_EXAMPLES_SHOWN, next=onwards)


def example(row: Row) -> Row:
    """An example of what a head attends to, from a row of a part with its document's text."""
    text, cell = row["text"], {name: row[f"peak_{name}"] for name in ("weight", "query", "key")}
    spans = {name: (row["starts"][cell[name]], row["ends"][cell[name]]) for name in ("query", "key")}
    names = {f"{name}_token": text[first:last].strip() if first >= 0 else "" for name, (first, last) in spans.items()}
    start, end = 0, len(text)
    if end > _WHOLE:
        first, last = max(0, min(spans.values())[0] - _AROUND), max(spans.values())[1] + _AROUND
        if last - first > _WHOLE:  # far apart: the query alone
            first, last = max(0, spans["query"][0] - _WHOLE // 2), spans["query"][1] + _WHOLE // 2
        start, end = first, min(end, last)
    return (
        cell
        | {name: row[name] for name in WHERE}
        | names
        | {"text": text[start:end], "whole": end - start == len(text)}
    )


def differences_answer(
    one: "ScanResults",
    other: "ScanResults",
    found: Sequence[Row],
    kinds: Sequence[Row],
    *,
    alone: int,
    same: bool,
    shown: int | None,
    level: float,
) -> Answer:
    """What differs between two scans; `alone` are the heads that one of them has."""
    (tables, words), (others, other_words) = _corpus(one), _corpus(other)
    differ = sum(row["differs"] for row in found)
    run = {"test": "paired" if same else "welch", "level": level, "compared": len(found), "differ": differ}
    test = "same documents: paired test" if same else "other documents: Welch's test"
    findings = [f"{differ:,} of {len(found):,} numbers differ significantly",
                f"{test}, family-wise error rate {level:.0%} (Holm 1979)"]  # fmt: skip
    if kinds:
        findings.append(f"{counted(len(kinds), 'head')} of another kind")
    if alone:
        findings.append(f"{counted(alone, 'head')} in one scan only")
    return Answer(
        _DIFFERENCES,
        (*findings, words, f"against {other.name} {other_words}"),
        {
            "differences": Table.of(found),
            "kinds": Table.of(kinds),
            "run": Table.of([run | {"unmatched_heads": alone}]),
            **tables,
            "corpus": Table.of([*tables["corpus"], *others["corpus"]]),
        },
        shown=min(_DIFFERENCES_SHOWN, differ) if shown is None else shown,
        next=_show_head(other.name, found[0]) if found else None,
    )
