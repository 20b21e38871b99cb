"""The heads of a text counted by what they do; the words are those of `standing_out`."""

from collections.abc import Sequence
from typing import Any

from attn_cli.summaries.reduce import Summary, with_part
from attn_cli.summaries.reducers.kinds.head_kinds import BACK, CONTENT, FIRST, KINDS, Kind
from attn_cli.summaries.reducers.kinds.numbers import LEAST_ROWS, NOT_JUDGED
from attn_cli.summaries.reducers.kinds.reducer import HeadKinds
from attn_cli.summaries.standing_out import does, on_few_rows
from attn_cli.text import counted

_NAMED = 6  # heads of a kind
_PERHAPS = "perhaps "


def any_judged(summaries: Sequence[Summary]) -> bool:
    """True if any head's kind (induction ...) could be told: enough rows have a key that would define one."""
    return any((part.judged.kind != NOT_JUDGED).any() for _, part in with_part(summaries, HeadKinds))


def by_stream(summaries: Sequence[Summary]) -> dict[str, list[Summary]]:
    """The summaries whose heads were judged, by the stream (self, cross ...) of their calls."""
    streams: dict[str, list[Summary]] = {}
    for summary, _ in with_part(summaries, HeadKinds):
        streams.setdefault(summary.place.stream, []).append(summary)
    return streams


def families(summaries: Sequence[Summary]) -> list[dict[str, Any]]:
    """Rows of a table: heads counted by kind in the order of `KINDS`, those of none, and those that may be of one."""
    streams = by_stream(summaries)
    return [
        {"family": f"{stream} {row['family']}" if len(streams) > 1 else row["family"]} | row
        for stream, own in streams.items()
        for row in _families(own)
    ]


def _families(summaries: Sequence[Summary]) -> list[dict[str, Any]]:
    groups: dict[tuple[bool, int, str], list[tuple[float, str]]] = {}
    few = on_few_rows(summaries)
    for call, (summary, part) in enumerate(with_part(summaries, HeadKinds)):
        judged = part.judged
        for at, number in enumerate(judged.kind.tolist()):
            out = few.get((call, at))
            kind = KINDS[number] if number >= 0 else None
            weight = float(judged.weight[number, at]) if kind else 0.0
            if out is not None and out.kind is not None:
                kind, weight = out.kind, out.weight
            place = KINDS.index(kind) if kind else len(KINDS)
            name = (_PERHAPS if out else "") + kind_name(kind)
            place = KINDS.index(BACK[0]) if kind in BACK else place
            groups.setdefault((out is not None, place, name), []).append(
                (weight, f"{summary.place.layer}.{summary.place.heads[at]}")
            )
    rows = []
    for (_, place, name), heads in sorted(groups.items()):
        heads.sort(key=lambda head: -head[0])
        has_kind = place < len(KINDS)
        rows.append({
            "family": name, "heads": len(heads), "weight": heads[0][0] if has_kind else None,
            "strongest": "  ".join(head for _, head in heads[:_NAMED]) if has_kind else "",
        })  # fmt: skip
    return rows


def kind_name(kind: Kind | None) -> str:
    """The kind in a line of kinds: `induction`, `first token`, `2 to 8 back`, `no kind`."""
    if kind is None:
        return "no kind"
    return "2 to 8 back" if kind in BACK else "first token" if kind is FIRST else kind.words


def finding(summaries: Sequence[Summary]) -> str:
    """The head that finds content most clearly, in a sentence; or that there is none, or too few tokens to tell."""
    if not any_judged(summaries):
        return f"too few tokens to name heads: a kind takes {LEAST_ROWS} rows"
    streams = by_stream(summaries)
    for stream, own in streams.items():
        rows = {row["family"].removeprefix(_PERHAPS): row for row in _families(own)}
        for row, kind in ((rows[kind.words], kind) for kind in KINDS if kind.rank == CONTENT and kind.words in rows):
            name = f"{f'{stream} ' if len(streams) > 1 else ''}{row['strongest'].split()[0]}"
            if row["family"].startswith(_PERHAPS):
                return f"head {name} may be of the kind {kind.words}: few rows tell"
            others = row["heads"] - 1
            return f"head {name} {does(kind)}" + (
                f"; {counted(others, 'other')} do{'es' * (others == 1)}, too" if others else ""
            )
    if any(token.row is not None for token in summaries[0].queries):  # patches, of which none repeats another
        return "no head finds content: patches don't repeat"
    return "no head looks at what followed a token before, or at the same token"


def work_in_words(summary: Summary, at: int) -> str:
    """What one head of a call attends to on this text, as a phrase; "" where it fits no kind."""
    part = summary.part(HeadKinds)
    number = -1 if part is None else int(part.judged.kind[at])
    return does(KINDS[number]) if number >= 0 else ""
