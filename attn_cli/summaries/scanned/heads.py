"""attn scan show: the heads of a scan, by kind or by a statistic."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from attn_cli.summaries.answer import Answer, Shape, Table, head_choice
from attn_cli.summaries.ranking import Ranking
from attn_cli.summaries.scanned.corpus import CORPUS, ESTIMATE, KIND, PLACE, Row, show_head
from attn_cli.text import counted

SORTED = ("document_mean", "low", "high", "q05", "q50", "q95")
SHAPE = Shape(
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
    SHAPE,
    screen={"heads": ("head", *SORTED, "kind")},
    bars=(),
    legend=("low, high: 95 % interval of the mean over documents; p5, p50, p95: percentiles",),
)
_SHOWN = 20


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
    listed = {_place(row) for row in rows}
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
        "statistics": Table.of(row for row in statistics if _place(row) in listed),
        "kinds": Table({"kind": [name for name, _ in counts.most_common()],
                        "count": [count for _, count in counts.most_common()]}),
        **corpus[0],
    }  # fmt: skip
    shape = SHAPE if ranking is None else _BY_NUMBER
    return Answer(shape, findings, tables, shown=top or _SHOWN, next=show_head(folder, rows[0]) if rows else None)


def _place(row: Row) -> tuple[object, ...]:
    return tuple(row.get(name.rstrip("?")) for name in PLACE)
