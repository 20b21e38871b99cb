"""The reducer behind all per-head statistics: what they need of every row is asked for once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from attn_cli.arrays import to_numpy, to_numpy_together
from attn_cli.call import Call
from attn_cli.fields import COUNT, SHARE, STREAM, Field, Output
from attn_cli.fields import Rows as FieldRows
from attn_cli.kernel.stats.packed import packed_keys
from attn_cli.kernel.stats.wanted import Rows, RowStats, Wanted
from attn_cli.packed_call import PackedCall
from attn_cli.prompt import Token
from attn_cli.summaries.call_fields import HEAD, KV_HEAD, LAYER, LAYERS
from attn_cli.summaries.calls.memo import memoised
from attn_cli.summaries.reduce import Part, Summary
from attn_cli.summaries.reducers.heads.alignment import AlignedTexts, Alignment, KeyRule
from attn_cli.summaries.reducers.heads.head_rows import HeadRows
from attn_cli.summaries.reducers.heads.statistics import STATISTICS, Statistic

_ROW = (
    STREAM,
    LAYER,
    HEAD,
    KV_HEAD,
    *(statistic.field for statistic in STATISTICS),
    Field("masked_rows", COUNT, "number of fully masked queries"),
    Field(
        "visible_weight",
        SHARE,
        "weight of the mean row on keys that are not hidden; with --hide",
        optional=True,
    ),
)
HEADS = Field("heads", FieldRows(_ROW, "means over the queries that are not fully masked"))
OUTPUT = Output("attn.heads/2", "Statistics of each head.", (LAYERS, HEADS))


@dataclass(frozen=True, eq=False)
class Heads(Part):
    """Statistics of the attention of each head over queries, `[h]` each; rows that may attend to nothing are left out.

    Entropy is in bits, distance in tokens, `max_score` a score; all else is from 0 to 1: mean weights, and `ruled`, the
    share of rows in which one key has 0.95 of the weight or more. Means over rows, but for the largest score.

    statistics   by the names in `STATISTICS`, which are attributes too: `heads.entropy_bits`; NaN where a call has none
    masked_rows  the number of rows that may attend to nothing
    rest         the mean weight of a row on the keys that the user didn't leave out; None unless some are left out
    """

    name: ClassVar[str] = "heads"
    together: ClassVar[bool] = True

    statistics: Mapping[str, np.ndarray]
    masked_rows: np.ndarray
    rest: np.ndarray | None = None

    def __getattr__(self, name: str) -> np.ndarray:
        """The statistic of that name, `[h]`."""
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


@dataclass(frozen=True, eq=False)
class HeadMeans:
    """Which row statistics the head statistics of some texts are made of, and how.

    texts    how the queries of each text stand among its keys
    unknown  by statistic which texts have no such number, booleans `[texts]`
    keys     for each key whose weight is a statistic (first, previous ...) its index in each of n rows `[n, 1]`
    """

    texts: AlignedTexts
    unknown: Mapping[Statistic, np.ndarray]
    keys: Mapping[KeyRule, np.ndarray]

    @classmethod
    def of(cls, alignments: Sequence[Alignment]) -> "HeadMeans":
        """How statistics are made for texts whose queries and keys are aligned as `alignments` say, one for each."""
        if len({text.is_causal for text in alignments}) > 1:  # a text of one token has nothing to look ahead to
            alignments = [replace(text, is_causal=False) for text in alignments]
        texts = AlignedTexts(tuple(alignments))
        unknown = {each: np.array([not each.exists(text) for text in alignments]) for each in STATISTICS}
        rules = [each.key_rule for each, missing in unknown.items() if each.key_rule is not None and not missing.all()]
        return cls(texts, unknown, {rule: texts.keys(rule)[:, None] for rule in dict.fromkeys(rules)})

    def wanted(self, rows: Rows = None) -> Wanted:
        """A request for the row statistics (entropy, weight on the first key ...) that head statistics are made of."""
        names = [name for each, missing in self.unknown.items() for name in each.moments if not missing.all()]
        return Wanted(rows, ("masked", "weight_sum", *dict.fromkeys(names)), tuple(self.keys.values()))

    def means(self, of_rows: HeadRows) -> dict[str, np.ndarray]:
        """Every head statistic by its name, `[h, texts]`, a mean over rows (of scores the largest);
        NaN for texts without it.
        """
        known = [statistic for statistic, unknown in self.unknown.items() if not unknown.all()]
        finished = dict(zip(known, to_numpy_together([each.finish(of_rows) for each in known]), strict=True))
        nothing = np.full(of_rows.live_rows.shape, np.nan)
        return {
            each.name: np.where(unknown, np.nan, finished[each]) if each in finished else nothing
            for each, unknown in self.unknown.items()
        }

    def taken(self, stats: RowStats, rows: Rows = None) -> list[Heads]:
        """For each text its head statistics, made of the row statistics of a call."""
        of_rows = HeadRows(stats, self.texts, self.keys, rows)
        columns, live = self.means(of_rows), to_numpy(of_rows.live_rows)  # [h, texts]
        rest = to_numpy(of_rows.rest) if self.texts.first.hides else None
        masked = (self.texts.counts if rows is None else len(rows)) - live
        return [
            Heads(
                {name: values[:, text] for name, values in columns.items()},
                masked[:, text],
                None if rest is None else rest[:, text],
            )
            for text in range(live.shape[1])
        ]


class HeadStatistics:
    """Makes `Heads` of a call: means of a few numbers of every row over the rows that may attend to something.

    rows  the ascending query rows over which means are taken, None for all
    """

    reads_tensors: ClassVar[bool] = True

    def __init__(self, rows: Sequence[int] | None = None) -> None:
        self.rows = None if rows is None else tuple(rows)

    @property
    def takes_texts(self) -> bool:
        """True if many texts can be taken at once, packed: where means are over all rows."""
        return self.rows is None

    def wanted(self, call: Call) -> Wanted:
        """A request for each row's sums (entropy, distance ...), and its weight on each key that a statistic is
        about.
        """
        return _means_of(call).wanted(self.rows)

    def part(self, call: Call, stats: RowStats) -> Heads:
        """The statistics of every head of the call, means over its rows (entropy, weight on the first key ...)."""
        return _means_of(call).taken(stats, self.rows)[0]

    def wanted_of_texts(self, packed: PackedCall) -> Wanted:
        """A request for the row statistics that head statistics are made of, of the rows of all packed texts."""
        return self._of_texts(packed)[1]

    def parts_of_texts(self, packed: PackedCall, stats: RowStats) -> Sequence[Heads]:
        """For each packed text in order the statistics of every head, means over rows (entropy, distance ...)."""
        means, _ = self._of_texts(packed)
        return means.taken(replace(stats, wanted=means.wanted()))

    def _of_texts(self, packed: PackedCall) -> tuple[HeadMeans, Wanted]:
        """The means, whose keys are counted in each text, and what they need, with keys counted among all."""

        def make() -> tuple[HeadMeans, Wanted]:
            means = HeadMeans.of([Alignment.of(call) for call in packed.calls])
            wanted = means.wanted()
            of_texts = ([keys[rows] for rows in packed.texts] for keys in wanted.key_sets)
            return means, replace(wanted, key_sets=tuple(packed_keys(x, packed.texts, packed.n) for x in of_texts))

        return packed.keep((HeadMeans, packed.place.stream, packed.rule.sink is None), make)


def _means_of(call: Call) -> HeadMeans:
    alignment, known = Alignment.of(call), _means_of_keys(call.keys)
    if alignment.without_keys not in known:
        known[alignment.without_keys] = HeadMeans.of([alignment])
    return known[alignment.without_keys]


@memoised
def _means_of_keys(keys: Sequence[Token]) -> dict[tuple[int, ...], HeadMeans]:
    return {}
