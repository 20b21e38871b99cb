"""The results of a scan as tables for notebooks, and as what `attn scan show` draws."""

from collections.abc import Iterator
from functools import cached_property
from math import isnan, nan, sqrt
from typing import Any

import numpy as np

from attn_cli.errors import InputError
from attn_cli.scans.kept.folder import ScanFolder
from attn_cli.scans.kept.manifest import LAYOUT
from attn_cli.scans.kept.tables import TABLES
from attn_cli.scans.sums.blocks import Blocks, paired
from attn_cli.selection import ranges
from attn_cli.summaries.answer import Answer, Table
from attn_cli.summaries.ranking import Ranking
from attn_cli.summaries.reducers.kinds.reducer import least_share
from attn_cli.summaries.reducers.kinds.targets import CONTENT, KINDS
from attn_cli.summaries.scanned import show
from attn_cli.summaries.scanned.differences import Number, Paired, differences, differences_answer
from attn_cli.summaries.scanned.show import ESTIMATE, EXAMPLE, KIND, SORTED, Place, Row
from attn_cli.summaries.scanned.student import two_sided_p
from attn_cli.text import excerpt, listed

_SCAN = "attn scan INPUT... -m MODEL -o DIR makes one"
_ABOUT = ("model", "type", "revision", "dtype", "device")
_ENDS = {"distances": ("nearest", "farthest"), "positions": ("first", "last")}
_KINDS = {kind.name: kind for kind in KINDS}


class ScanResults:
    """The results of a finished scan in its folder: Parquet tables, and scan.json.

    options   everything that the numbers depend on
    progress  counts: documents, records, tokens, rejected, and reasons (rejected records by reason)

    Raises InputError for a folder without a scan, and for one whose scan is unfinished or of another version.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        scan = self._scan = ScanFolder(folder)
        manifest = scan.read_manifest()
        if manifest is None:
            raise InputError(f"{excerpt(folder)} is not the folder of a scan", _SCAN)
        if not manifest["progress"].get("finished"):
            documents, tokens = scan.so_far()
            now = "it is running" if scan.is_claimed() else "the line that began it goes on with it"
            raise InputError(
                f"the scan in {excerpt(folder)} is not finished: {documents:,} documents, {tokens:,} tokens so far",
                f"{now}; results come at the end",
            )
        self.path = scan.path
        self.options: Row = manifest["scan"]
        if self.options.get("layout") != LAYOUT:
            raise InputError(
                f"{excerpt(folder)} was scanned by another version of attn",
                "scan again, or read its Parquet files with other tools",
            )
        self.progress: Row = manifest["progress"]
        self.about: Row = {name: self.options.get(name) for name in _ABOUT}

    def table(self, name: str) -> Any:
        """A table of the scan, such as "heads" or "kinds", as `pyarrow.Table`; InputError for another name."""
        if name not in TABLES:
            raise InputError(f"a scan has no table {name!r}", f"one of {', '.join(TABLES)}")
        return self._scan.read_table(name, "was the folder copied whole?")

    def to_pandas(self, name: str = "statistics") -> Any:
        """The table of this name, such as "statistics", as a `pandas.DataFrame`; ImportError without pandas."""
        return self.table(name).to_pandas()

    @cached_property
    def corpus(self) -> tuple[dict[str, Table], str]:
        """What was scanned, as tables of an answer and in a sentence."""
        files = [str(file["name"]) for file in self.options["files"]]
        return show.corpus_tables(self.folder, str(self.about["model"]), self.progress, files)

    @cached_property
    def statistics(self) -> dict[Number, Row]:
        """The distribution over documents of every head statistic, by (head, name of the statistic)."""
        return {
            (place, row["statistic"]): lead | {
                "statistic": row["statistic"], "documents": row["documents"],
                "standard_deviation": sqrt(_number(row["variance"])),
                "document_mean": row["mean"], **{name: row[name] for name in ESTIMATE if name in row},
            }
            for place, lead, row in self._rows(self.table("statistics")) if row["documents"]
        }  # fmt: skip

    @cached_property
    def heads(self) -> dict[Place, Row]:
        """All heads, those of the clearest kinds first, with the numbers of their kind: None where it is of none."""
        table = self.table("kinds")
        named = {place: kind_numbers(row) for place, _, row in self._rows(table.filter(table["named"]))}
        nothing = dict.fromkeys(KIND)
        heads = {
            place: lead | {"kind": row["kind"]} | {name: named.get(place, nothing)[name] for name in KIND}
            for place, lead, row in self._rows(self.table("heads"))
        }
        return dict(sorted(heads.items(), key=lambda head: _order(head[1])))

    @cached_property
    def blocks(self) -> dict[Number, Blocks]:
        """The sums of each head statistic over blocks of neighbouring documents, by (head, name of the statistic)."""
        return {
            (place, row["statistic"]): Blocks(
                row["size"].bit_length() - 1, np.array(row["block"], np.int64), np.array(row["count"]),
                np.array(row["total"], np.float64),
            )
            for place, _, row in self._rows(self.table("blocks"))
        }  # fmt: skip

    def show(self, ranking: Ranking | None = None, kind: str | None = None, top: int | None = None) -> Answer:
        """The scan's heads, as a result that can be printed or saved."""
        if kind is not None and kind not in _KINDS:
            raise InputError(f"--kind {excerpt(kind, 40)!r} is unknown", f"one of {', '.join(_KINDS)}")
        rows = list(self.heads.values())
        if ranking is not None:
            nothing = dict.fromkeys(ESTIMATE)
            numbers = [self.statistics.get((place, ranking.column), nothing) for place in self.heads]
            rows = [row | {name: of[name] for name in SORTED} for row, of in zip(rows, numbers, strict=True)]
        return show.heads_answer(
            self.folder, rows, [*self.statistics.values()], self.corpus, ranking=ranking, kind=kind, top=top
        )

    def head(self, layer: int, head: int, stream: str | None = None) -> Answer:
        """All that is known of one head: statistics, kinds, distances, tokens, examples."""
        place = self._find(layer, head, stream)
        found = self.heads[place]
        lead = {name: found[name] for name in found if name not in ("kind", *KIND)}
        kinds = [{"kind": row["kind"], **kind_numbers(row), "named": row["named"]}
                 for row in self._of(place, "kinds") if row["documents"]]  # fmt: skip
        kinds.sort(key=lambda kind: -(kind["share"] or 0.0) / (kind["baseline"] or 1.0))
        sides: dict[str, list[Row]] = {"to": [], "from": []}
        for row in self._of(place, "tokens"):
            named = {"token": row["token"], "times": row["count"], "rows": row["rows"], "exact": row["exact"]}
            sides[row["side"]].append(named)
        tables = {
            "statistics": [row for (of, _), row in self.statistics.items() if of == place],
            "kinds": kinds,
            **{name: [_range(row, *ends) for row in self._of(place, name)] for name, ends in _ENDS.items()},
            **{f"tokens_{side}": rows for side, rows in sides.items()},
            "parts": [{name: row[name] for name in ("part", "weight", "baseline")} for row in self._of(place, "parts")],
            "examples": [lead | _example(row) for row in self._of(place, "examples")],
        }
        return show.head_answer(self.folder, str(self.about["model"]), found, tables, self.corpus)

    def _find(self, layer: int, head: int, stream: str | None) -> Place:
        places = [place for place in self.heads if stream in (None, place[0])]
        layers = sorted({place[1] for place in places})
        layer = layer + layers[-1] + 1 if layer < 0 and layers else layer
        inside = sorted({place[2] for place in places if place[1] == layer})
        head = head + inside[-1] + 1 if head < 0 and inside else head
        found = [place for place in places if place[1:3] == (layer, head)]
        if not found:
            there = f"layer {layer} has heads {ranges(inside)}" if inside else f"layers: {ranges(layers)}"
            raise InputError(f"the scan has no head {layer}.{head}", there)
        streams = list(dict.fromkeys(place[0] for place in found))
        if len(streams) > 1:
            raise InputError(
                f"{layer}.{head} is a head of {listed(streams)}", f"--head {streams[0]}:{layer}.{head} chooses"
            )
        return found[0]

    def _rows(self, table: Any) -> Iterator[tuple[Place, Row, Row]]:
        """For each row of a table its head, the columns that name it in an answer, and the row."""
        has_stacks, crowded = self._has_stacks, self._crowded
        for row in table.to_pylist():
            several = (row["stream"], row["layer"]) in crowded
            place = (row["stream"], row["layer"], row["head"], *((row["module"], row["call"]) if several else ("", 0)))
            names = [*["stream"] * has_stacks, *["module", "call"] * bool(crowded), "layer", "head", "kv_head"]
            yield place, {name: row[name] for name in names}, row

    def _of(self, place: Place, name: str) -> Iterator[Row]:
        import pyarrow.compute

        table, equal = self.table(name), pyarrow.compute.equal
        mask = pyarrow.compute.and_(equal(table["layer"], place[1]), equal(table["head"], place[2]))
        return (row for found, _, row in self._rows(table.filter(mask)) if found == place)

    @cached_property
    def _has_stacks(self) -> bool:
        return any(stream != "self" for stream in self.table("heads")["stream"].to_pylist())

    @cached_property
    def _crowded(self) -> set[tuple[str, int]]:
        names = self.table("heads").select(["stream", "layer", "module", "call"]).to_pylist()
        modules = {tuple(row.values()) for row in names}
        layers = [module[:2] for module in modules]
        return {layer for layer in layers if layers.count(layer) > 1}


def open_scan(folder: str) -> ScanResults:
    """The results in the folder of a finished scan; InputError for any other folder."""
    return ScanResults(folder)


def kind_numbers(row: Row) -> Row:
    """A head's numbers for one kind, from a row of the table `kinds`, with how certain it is of that kind, 0 to 1."""
    least = float(least_share(_KINDS[row["kind"]], _number(row["baseline"]), _number(row["control"])))
    error = sqrt(_number(row["share_variance"]) / row["documents"]) if row["documents"] > 1 else nan
    far = (_number(row["share"]) - least) / error if error > 0 else nan
    below = float(two_sided_p(far, row["documents"] - 1)) / 2
    certainty = 1 - below if far > 0 else below
    return {name: row[name] for name in KIND[:-1]} | {"certainty": None if isnan(certainty) else certainty}


def _order(row: Row) -> tuple[int, float]:
    if row["share"] is None:
        return 2, 0.0
    return int(_KINDS[row["kind"]].rank != CONTENT), -row["share"]


def _range(row: Row, first: str, last: str) -> Row:
    ends = {name: row[name] for name in (first, last)}
    return {"range": show.range_text(*ends.values()), **ends, "weight": row["weight"], "baseline": row["baseline"]}


def _example(row: Row) -> Row:
    spans: Row = {}
    for name in ("query", "key"):
        start, end = row[f"{name}_start"], row[f"{name}_end"]
        piece = row["text"][start:end]
        start = start + len(piece) - len(piece.lstrip()) if start >= 0 else None
        spans |= {f"{name}_start": start, f"{name}_end": None if start is None else end}
    return {name: row[name] for name in EXAMPLE} | {"rank": row["rank"] - 1} | spans


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def differences_of(
    one: ScanResults, other: ScanResults, statistic: str | None = None, shown: int | None = None
) -> Answer:
    """The differences of two scans: every statistic of every head that both have, and the kinds that changed."""
    common = [place for place in one.heads if place in other.heads]
    if not common:
        raise InputError(f"the scans in {excerpt(one.folder)} and {excerpt(other.folder)} have no head in common",
                         "scans of models of one architecture can be compared")  # fmt: skip
    kinds = [
        {name: head[name] for name in head if name not in KIND} | {"other_kind": other.heads[place]["kind"]}
        for place, head in one.heads.items()
        if place in other.heads and head["kind"] != other.heads[place]["kind"]
    ]
    same = one.progress.get("content", one) == other.progress.get("content")
    chosen = {number: row for number, row in one.statistics.items() if statistic in (None, number[1])}
    found = differences(chosen, other.statistics, _paired(one, other) if same else None)
    alone = len(one.heads) + len(other.heads) - 2 * len(common)
    return differences_answer(other.folder, found, kinds, one.corpus, other.corpus, alone=alone, same=same, shown=shown)


def _paired(one: ScanResults, other: ScanResults) -> Paired:
    theirs = other.blocks
    errors = {key: paired(blocks, theirs[key]) for key, blocks in one.blocks.items() if key in theirs}
    return {key: (float(error), float(freedom)) for key, (error, freedom) in errors.items()}
