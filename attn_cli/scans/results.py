"""Queries over the parts of a scan: numbers of heads over documents, kinds, examples, differences from another scan."""

from functools import cached_property
from math import isnan
from typing import Any

import numpy as np

from attn_cli.errors import InputError
from attn_cli.scans import show
from attn_cli.scans.folder import ScanFolder
from attn_cli.scans.numbers import PEAK
from attn_cli.scans.part import JUDGED, PLACE, sums_of
from attn_cli.scans.show import ESTIMATE, KIND, Row
from attn_cli.scans.student import ci_half_width, holm, two_sided_p
from attn_cli.selection import ranges
from attn_cli.sources.corpora.records import arrow
from attn_cli.sources.files.parse_errors import parse_errors
from attn_cli.summaries.answer import Answer
from attn_cli.summaries.ranking import Ranking
from attn_cli.summaries.reducers.heads import STATISTICS
from attn_cli.summaries.reducers.kinds.reducer import KIND_NAMES, LEAST_ROWS, KindNumbers, least_share
from attn_cli.summaries.reducers.kinds.targets import CONTENT, KINDS
from attn_cli.text import excerpt, listed

_ABOUT = ("model", "type", "revision", "dtype", "device")
_STATISTICS = tuple(statistic.name for statistic in STATISTICS)
_KINDS = tuple(kind.name for kind in KINDS)
_QUANTILES = {"q05": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q95": 0.95}
_STRONGEST, _DECILES = 5, np.arange(9, 0, -1) / 10
LEVEL = 0.05  # the probability that any of the numbers that are said to differ does so by chance


class ScanResults:
    """The results of a scan, of all parts that are in its folder.

    options   everything that the numbers depend on, as scan.json says it
    progress  counts: documents, records, tokens, parts, missing, rejected, and reasons (rejected records by reason)

    Raises InputError for a folder without a scan, of another version, or with damaged parts.
    """

    def __init__(self, folder: str) -> None:
        self.name, self.folder = folder, ScanFolder(folder)
        self.options: Row = self.folder.scan
        hint = "attn scan INPUT... -m MODEL -o DIR makes one"
        if not self.options:
            raise InputError(f"{excerpt(folder)} is not the folder of a scan", hint)
        self.progress = self.folder.counts()
        if not self.progress["documents"]:
            raise InputError(f"the scan in {excerpt(folder)} has no document yet", "the line that began it goes on")
        self.about: Row = {name: self.options.get(name) for name in _ABOUT}
        self.parts = {
            number: about for number in self.folder.parts() if (about := self.folder.open(number)[0])["documents"]
        }
        if len({about["heads"] for about in self.parts.values()}) > 1:
            raise InputError(f"the parts in {excerpt(folder)} are of other heads", "were all made by one scan?")

    def table(self, columns: list[str] | None = None) -> Any:
        """The rows of all parts, one for each document and head, as `pyarrow.Table`; of some columns, or of all."""
        tables = [self.folder.table(number, columns) for number in self.parts]
        with parse_errors(f"the parts in {excerpt(self.name)}", "were all made by one scan?"):
            return arrow().concat_tables(tables)

    def to_pandas(self, columns: list[str] | None = None) -> Any:
        """The same rows as a `pandas.DataFrame`, which must be installed."""
        return self.table(columns).to_pandas()

    def values(self, name: str) -> np.ndarray:
        """A number of every document and head `[documents, heads]`, NaN for none."""
        column = self.table([name])[name].to_numpy().astype(np.float32)
        if np.isinf(column).any():
            raise InputError(f"{name} in {excerpt(self.name)} holds what is no finite number", "the parts are damaged")
        return column.reshape(-1, len(self.places))

    @cached_property
    def places(self) -> list[Row]:
        """The heads, each as the columns that name it in an answer."""
        first = next(iter(self.parts))
        rows = self.folder.table(first, [*PLACE]).slice(0, self.parts[first]["heads"]).to_pylist()
        layers = [(row["stream"], row["layer"]) for row in rows]
        heads = {(*of, row["head"]) for of, row in zip(layers, rows, strict=True)}
        left_out = {"module", "call"} if len(heads) == len(rows) else set()
        left_out |= {"stream"} if all(row["stream"] == "self" for row in rows) else set()
        return [{name: row[name] for name in show.LEAD if name in row and name not in left_out} for row in rows]

    @cached_property
    def kinds(self) -> dict[str, np.ndarray]:
        """Of every kind and head `[K, heads]` the share with its interval and certainty, and what else names heads."""
        sums: dict[str, np.ndarray] = {}
        for number in self.parts:
            _, file = self.folder.open(number)
            with parse_errors(f"{excerpt(self.name)}, part {number}", "it is damaged: remove it, and scan again"):
                for name, array in sums_of(file.schema_arrow.metadata).items():
                    if array.shape != (len(KINDS), len(self.places)) or array.dtype.kind not in "iuf":
                        raise ValueError(f"its {name} is of other heads")
                    sums[name] = sums.get(name, 0) + array
        if missing := {*JUDGED} - {*sums}:
            raise InputError(
                f"the parts in {excerpt(self.name)} have no {missing.pop()}", "were all made by attn scan?"
            )
        with np.errstate(invalid="ignore", divide="ignore"):
            found = {name: sums[name] / sums[f"{name}.count"] for name in JUDGED}
        found |= {name: sums[name] for name in ("rows", "control_rows")}
        found["control"][found["control_rows"] < LEAST_ROWS] = np.nan
        shares = [estimates(self.values(f"{kind}_share")) for kind in _KINDS]
        found |= {f"share{end}": np.stack([share[name] for share in shares])
                  for end, name in (("", "document_mean"), ("_low", "low"), ("_high", "high"))}  # fmt: skip
        found |= {name: np.stack([share[name] for share in shares]) for name in ("documents", "standard_deviation")}
        least = np.stack(
            [least_share(kind, found["baseline"][at], found["control"][at]) for at, kind in enumerate(KINDS)]
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            far = (found["share"] - least) / found["standard_deviation"] * np.sqrt(found["documents"])
            below = two_sided_p(far, found["documents"] - 1) / 2
        return found | {"certainty": np.where(far > 0, 1 - below, below)}

    @cached_property
    def kind(self) -> list[str]:
        """The kind of every head over all documents."""
        modules: dict[tuple[Any, ...], list[int]] = {}
        for at, place in enumerate(self.places):
            modules.setdefault(tuple(place.get(name) for name in ("stream", "layer", "module", "call")), []).append(at)
        names = [""] * len(self.places)
        for heads in modules.values():
            found = {name: numbers[:, heads] for name, numbers in self.kinds.items()}
            per_head = (found[name] for name in ("share", "share", "non_sink_weight", "row_support", "control"))
            of_text = (found[name][:, 0] for name in ("baseline", "rows", "control_rows"))
            for at, kind in zip(heads, KindNumbers(*per_head, *of_text).kind.tolist(), strict=True):
                names[at] = KIND_NAMES[kind]
        return names

    def _of_kind(self, kind: str, at: int) -> Row:
        """A head's numbers for one kind; None for what there is none of, as of no kind."""
        if kind not in _KINDS:
            return dict.fromkeys(KIND)
        return {name: _plain(self.kinds[name][_KINDS.index(kind), at]) for name in KIND}

    @cached_property
    def heads(self) -> list[Row]:
        """All heads, with the numbers of their kind."""
        return [place | {"kind": kind} | self._of_kind(kind, at)
                for at, (place, kind) in enumerate(zip(self.places, self.kind, strict=True))]  # fmt: skip

    def statistics(self, names: tuple[str, ...] = _STATISTICS) -> list[list[Row]]:
        """For each head the distributions of these statistics over documents, of those that it has."""
        rows: list[list[Row]] = [[] for _ in self.places]
        for name in names:
            found = estimates(self.values(name), quantiles=True)
            for at, place in enumerate(self.places):
                if found["documents"][at]:
                    numbers = {each: _plain(found[each][at]) for each in ("documents", *ESTIMATE)}
                    rows[at].append(place | {"statistic": name} | numbers)
        return rows

    def show(self, ranking: Ranking | None = None, kind: str | None = None, top: int | None = None) -> Answer:
        """The scan's heads, as a result that can be printed or saved."""
        if kind is not None and kind not in KIND_NAMES.values():
            raise InputError(f"--kind {excerpt(kind, 40)!r} is unknown", f"one of {', '.join(_KINDS)}")
        statistics, heads = self.statistics(), self.heads
        if ranking is None:
            order = sorted(range(len(heads)), key=lambda at: _order(heads[at]))
        else:
            numbers = [next((row for row in rows if row["statistic"] == ranking.column), {}) for rows in statistics]
            heads = [
                head | {name: of.get(name) for name in show.SORTED} for head, of in zip(heads, numbers, strict=True)
            ]
            mean = [np.nan if head["document_mean"] is None else head["document_mean"] for head in heads]
            order = ranking.of(range(len(heads)), lambda at: mean[at])
        order = [at for at in order if kind in (None, heads[at]["kind"])][:top]
        return show.heads_answer(self, [heads[at] for at in order], [row for at in order for row in statistics[at]],
                                 ranking=ranking, kind=kind, top=top)  # fmt: skip

    def head(self, layer: int, head: int, stream: str | None = None) -> Answer:
        """All that is known of one head: statistics, kinds, examples."""
        at = self._find(layer, head, stream)
        found = {kind: self._of_kind(kind, at) for kind in _KINDS}
        kinds: list[Row] = [
            {"kind": kind, **row, "named": kind == self.kind[at]} for kind, row in found.items() if row["documents"]
        ]
        kinds.sort(key=lambda row: -(row["share"] or 0.0) / (row["baseline"] or 1.0))
        return show.head_answer(self, self.heads[at], self.statistics()[at], kinds, self._examples(at))

    def _find(self, layer: int, head: int, stream: str | None) -> int:
        places = [place for place in self.places if stream in (None, place.get("stream", "self"))]
        layers = sorted({place["layer"] for place in places})
        layer = layer + layers[-1] + 1 if layer < 0 and layers else layer
        inside = sorted({place["head"] for place in places if place["layer"] == layer})
        head = head + inside[-1] + 1 if head < 0 and inside else head
        found = [place for place in places if (place["layer"], place["head"]) == (layer, head)]
        if not found:
            there = f"layer {layer} has heads {ranges(inside)}" if inside else f"layers: {ranges(layers)}"
            raise InputError(f"the scan has no head {layer}.{head}", there)
        streams = list(dict.fromkeys(place.get("stream", "self") for place in found))
        if len(streams) > 1:
            raise InputError(
                f"{layer}.{head} is a head of {listed(streams)}", f"--head {streams[0]}:{layer}.{head} chooses"
            )
        return self.places.index(found[0])

    def _examples(self, at: int) -> list[Row]:
        """The strongest cell of the five documents with the most of the head's kind, and of one at every decile."""
        number = self.kind[at] if self.kind[at] in _KINDS else None
        of = self.values("peak_weight" if number is None else f"{number}_share")[:, at]
        weights = self.values("peak_weight")[:, at]
        known = np.flatnonzero(~np.isnan(of) & ~np.isnan(weights))
        order = known[np.lexsort((known, -weights[known], -of[known]))]  # the largest first
        ranks = [*range(_STRONGEST), *(round((1 - decile) * (len(order) - 1)) for decile in _DECILES)]
        ranks = sorted({rank for rank in ranks if rank < len(order)})
        percentiles = [100 * (1 - rank / max(1, len(order) - 1)) for rank in ranks]
        examples = (self._example(int(order[rank]), at) for rank in ranks)
        return [{**self.places[at], "percentile": percentile, **row}
                for percentile, row in zip(percentiles, examples, strict=True)]  # fmt: skip

    def _example(self, document: int, at: int) -> Row:
        ends = np.cumsum([about["documents"] for about in self.parts.values()])
        part = int(np.searchsorted(ends, document, side="right"))
        number = [*self.parts][part]
        first = (document - int(ends[part]) + self.parts[number]["documents"]) * len(self.places)
        table = self.folder.table(number, [*show.WHERE, *PEAK, "text", "starts", "ends"])
        with parse_errors(f"{excerpt(self.name)}, part {number}", "it is damaged: remove it, and scan again"):
            cell, said = table.slice(first + at, 1).to_pylist()[0], table.slice(first, 1).to_pylist()[0]
            return show.example(said | {name: cell[name] for name in PEAK})


def open_scan(folder: str) -> ScanResults:
    """The results in the folder of a scan; InputError for any other folder."""
    return ScanResults(folder)


def estimates(values: np.ndarray, *, quantiles: bool = False) -> dict[str, np.ndarray]:
    """For each head count of documents, mean, its 95 % interval, standard deviation, exact quantiles `[heads]`."""
    known = ~np.isnan(values)
    count = known.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(known, values, 0).sum(axis=0, dtype=np.float64) / count
        apart = np.where(known, values - mean, 0.0)
        variance = np.where(count > 1, (apart * apart).sum(axis=0) / (count - 1), np.nan)
    width = ci_half_width(variance, count)
    found = {"documents": count, "document_mean": mean, "low": mean - width, "high": mean + width,
             "standard_deviation": np.sqrt(variance)}  # fmt: skip
    if quantiles:
        ordered = np.sort(values.T, axis=1)  # NaN comes last
        for name, rank in _QUANTILES.items():
            place = rank * np.maximum(count - 1, 0)
            low = np.floor(place).astype(int)
            one, next_one = (np.take_along_axis(ordered, x[:, None], 1)[:, 0].astype(np.float64)
                             for x in (low, np.minimum(low + 1, np.maximum(count - 1, 0))))  # fmt: skip
            found[name] = one + (next_one - one) * (place - low)
    return found


def _plain(value: Any) -> Any:
    number = value.item()
    return None if isinstance(number, float) and isnan(number) else number


def _order(row: Row) -> tuple[int, float]:
    if row["share"] is None:
        return 2, 0.0
    return int(KINDS[_KINDS.index(row["kind"])].rank != CONTENT), -row["share"]


def differences_of(
    one: ScanResults, other: ScanResults, statistic: str | None = None, shown: int | None = None
) -> Answer:
    """The differences of two scans: every statistic of every head that both have, and the kinds that changed."""
    theirs = {tuple(place.items()): at for at, place in enumerate(other.places)}
    pairs = [(at, theirs[key]) for at, place in enumerate(one.places) if (key := tuple(place.items())) in theirs]
    if not pairs:
        raise InputError(f"the scans in {excerpt(one.name)} and {excerpt(other.name)} have no head in common",
                         "scans of models of one architecture can be compared")  # fmt: skip
    kinds = [one.places[at] | {"kind": one.kind[at], "other_kind": other.kind[to]}
             for at, to in sorted(pairs, key=lambda pair: _order(one.heads[pair[0]]))
             if one.kind[at] != other.kind[to]]  # fmt: skip
    contents = [[(number, about.get("content"), about["documents"]) for number, about in each.parts.items()]
                for each in (one, other)]  # fmt: skip
    same = contents[0] == contents[1]
    rows: list[Row] = []
    for name in _STATISTICS if statistic is None else (statistic,):
        first, second = (each.values(name)[:, [pair[side] for pair in pairs]] for side, each in enumerate((one, other)))
        tested = _tested(first, second, paired=same)
        rows += [
            one.places[at] | {"statistic": name} | {each: _plain(of[row]) for each, of in tested.items()}
            for row, (at, _) in enumerate(pairs)
            if not isnan(tested["difference"][row]) and tested["varies"][row]
        ]
    for row, adjusted in zip(rows, holm([row["p_value"] for row in rows]).tolist(), strict=True):
        row |= {"adjusted_p_value": adjusted, "differs": adjusted < LEVEL}
        del row["varies"]
    rows.sort(key=lambda row: (not row["differs"], -abs(row["effect"] or 0.0)))
    alone = len(one.places) + len(other.places) - 2 * len(pairs)
    return show.differences_answer(one, other, rows, kinds, alone=alone, same=same, shown=shown, level=LEVEL)


def _tested(first: np.ndarray, second: np.ndarray, *, paired: bool) -> dict[str, np.ndarray]:
    """Student's paired test of the same documents, Welch's of others, of each head's numbers `[documents, heads]`."""
    one, two = estimates(first), estimates(second)
    squares = [x["standard_deviation"] ** 2 / x["documents"] for x in (one, two)]
    with np.errstate(invalid="ignore", divide="ignore"):
        freedom = sum(squares) ** 2 / sum(
            x**2 / (of["documents"] - 1) for x, of in zip(squares, (one, two), strict=True)
        )
        error, difference = np.sqrt(sum(squares)), two["document_mean"] - one["document_mean"]
        if paired:
            apart = estimates(second.astype(np.float64) - first)
            error, freedom = apart["standard_deviation"] / np.sqrt(apart["documents"]), apart["documents"] - 1
        freedoms = [x["documents"] - 1 for x in (one, two)]
        total = sum(of * x["standard_deviation"] ** 2 for of, x in zip(freedoms, (one, two), strict=True))
        pooled = np.sqrt(total / sum(freedoms))
        freedom = np.where(np.isnan(freedom), sum(freedoms), freedom)
        p_value = np.where(difference == 0, 1.0, two_sided_p(difference / error, freedom))
        effect = np.where(difference == 0, 0.0, difference / pooled)
    width = ci_half_width(error**2 * (freedom + 1), freedom + 1)
    return {
        "document_mean": one["document_mean"], "other_mean": two["document_mean"], "difference": difference,
        "low": difference - width, "high": difference + width, "effect": effect, "p_value": p_value,
        "varies": (pooled > 0) | (difference != 0),
    }  # fmt: skip
