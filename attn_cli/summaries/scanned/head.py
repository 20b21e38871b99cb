"""attn scan show --head: all that a scan knows of one head."""

from collections.abc import Mapping, Sequence

from attn_cli.summaries.answer import Answer, Next, Shape, Table, head_choice
from attn_cli.summaries.scanned.corpus import CORPUS, ESTIMATE, KIND, PLACE, Row
from attn_cli.text import visible

EXAMPLE = (
    *("kind", "rank", "weight", "document", "piece", "file", "record", "query", "key", "query_token", "key_token"),
    *("text", "whole", "first", "last", "query_start", "query_end", "key_start", "key_end"),
)
_TOKENS = ("token", "times", "rows", "exact")
SHAPE = Shape(
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
_SHOWN = 10


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
        SHAPE,
        (finding, corpus[1]),
        {name: Table.of(rows[name]) for name in SHAPE.tables if name in rows} | {**corpus[0]},
        shown=_SHOWN,
        next=onwards,
    )


def range_text(first: int | None, last: int | None) -> str:
    """A range as text: `3`, `9-16`, `1025-`, `-16 to -9`; distances of keys after the query are negative."""
    if first == last:
        return f"{first}"
    between = " to " if (first or 0) < 0 or (last or 0) < 0 else "-"
    return f"{'' if first is None else first}{between}{'' if last is None else last}".strip()
