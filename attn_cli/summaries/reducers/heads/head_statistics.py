"""The reducer behind all per-head statistics: what they need of every row is asked for once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from attn_cli.arrays import to_numpy_together
from attn_cli.call import Call
from attn_cli.kernel.stats.packed import packed_keys
from attn_cli.kernel.stats.wanted import Rows, RowStats, Wanted
from attn_cli.packed_call import PackedCall
from attn_cli.prompt import Token
from attn_cli.summaries.calls.memo import memoised
from attn_cli.summaries.reduce import Part, Summary
from attn_cli.summaries.reducers.heads.statistics import Rows as HeadRows
from attn_cli.summaries.reducers.heads.statistics import TextRows


@dataclass(frozen=True, eq=False)
class Heads(Part):
    """Statistics of the attention of each head over queries, `[h]` each; rows that may attend to nothing are left out.

    statistics   by the names in `STATISTICS`, which are attributes too: `heads.entropy_bits`; NaN where a call has none
    rest         the mean weight of a row on the keys that the user didn't leave out; None unless some are left out
    """

    name: ClassVar[str] = "heads"
    together: ClassVar[bool] = True

    statistics: Mapping[str, np.ndarray]
    masked_rows: np.ndarray
    rest: np.ndarray | None = None

    def __getattr__(self, name: str) -> np.ndarray:
        if name in self.__dict__.get("statistics", ()):
            return self.statistics[name]
        raise AttributeError(f"'Heads' has no statistic {name!r}")

    def records(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One row per head: layer, head, kv_head, every statistic by its name, and the count masked_rows."""
        place = summary.place
        columns = {name: values.tolist() for name, values in self.statistics.items()}
        columns["masked_rows"] = [int(count) for count in self.masked_rows]
        if self.rest is not None:
            columns["visible_weight"] = self.rest.tolist()
        for head, group, *numbers in zip(place.heads, place.groups, *columns.values(), strict=True):
            lead = {"layer": place.layer, "head": head, "kv_head": group}
            yield lead | dict(zip(columns, numbers, strict=True))

    def arrays(self) -> dict[str, np.ndarray]:
        """Each head statistic `[h]` by its name."""
        rest = {} if self.rest is None else {"visible_weight": self.rest}
        return {**self.statistics, "masked_rows": self.masked_rows, **rest}


def heads_of(asked: HeadRows, stats: RowStats, rows: Rows = None) -> list[Heads]:
    """For each text its head statistics, made of the row statistics of a call."""
    answered = asked.answered(stats, rows)
    columns = dict(zip(answered, to_numpy_together([*answered.values()]), strict=True))  # [h, texts]
    live, rest = columns.pop("live_rows"), columns.pop("rest")
    return [
        Heads(
            {name: values[:, text] for name, values in columns.items()},
            (asked.texts[text].n if rows is None else len(rows)) - live[:, text],
            rest[:, text] if asked.first.hides else None,
        )
        for text in range(live.shape[1])
    ]


class HeadStatistics:
    """Makes `Heads` of a call: means of a few numbers over `rows` (None for all) that may attend to something."""

    def __init__(self, rows: Sequence[int] | None = None) -> None:
        self.rows = None if rows is None else tuple(rows)

    @property
    def takes_texts(self) -> bool:
        """True if many texts can be taken at once, packed: where means are over all rows."""
        return self.rows is None

    def wanted(self, call: Call) -> Wanted:
        """A request for each row's sums, and its weight on each key that a statistic is about."""
        return _asked(call).wanted(self.rows)

    def part(self, call: Call, stats: RowStats) -> Heads:
        """The statistics of every head of the call, means over its rows (entropy, weight on the first key ...)."""
        return heads_of(_asked(call), stats, self.rows)[0]

    def wanted_of_texts(self, packed: PackedCall) -> Wanted:
        """A request for the row statistics that head statistics are made of, of the rows of all packed texts."""
        return self._of_texts(packed)[1]

    def parts_of_texts(self, packed: PackedCall, stats: RowStats) -> Sequence[Heads]:
        """For each packed text in order the statistics of every head, means over rows (entropy, distance ...)."""
        asked, _ = self._of_texts(packed)
        return heads_of(asked, replace(stats, wanted=asked.wanted()))

    def _of_texts(self, packed: PackedCall) -> tuple[HeadRows, Wanted]:
        def make() -> tuple[HeadRows, Wanted]:
            asked = HeadRows.asked([TextRows.of(call) for call in packed.calls])
            wanted = asked.wanted()
            of_texts = ([keys[rows] for rows in packed.texts] for keys in wanted.key_sets)
            return asked, replace(wanted, key_sets=tuple(packed_keys(x, packed.texts, packed.n) for x in of_texts))

        return packed.keep((HeadRows, packed.place.stream, packed.rule.sink is None), make)


def _asked(call: Call) -> HeadRows:
    text, known = TextRows.of(call), _asked_of(call.keys)
    flags = text._replace(keys=())
    if flags not in known:
        known[flags] = HeadRows.asked([text])
    return known[flags]


@memoised
def _asked_of(keys: Sequence[Token]) -> dict[TextRows, HeadRows]:
    return {}
