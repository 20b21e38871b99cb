"""The results of a scan as tables for notebooks, and as what `attn scan show` draws."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from attn_cli.errors import InputError
from attn_cli.scans.kept.folder import ScanFolder
from attn_cli.scans.kept.manifest import LAYOUT
from attn_cli.scans.kept.tables import TABLES
from attn_cli.scans.sums.blocks import Blocks, paired
from attn_cli.selection import ranges
from attn_cli.sources.corpora import Corpus, Document
from attn_cli.sources.corpora.inputs import CorpusFile, content_hash
from attn_cli.summaries.ranking import Ranking
from attn_cli.summaries.reducers.heads.statistics import STATISTICS
from attn_cli.summaries.reducers.kinds.head_kinds import KINDS
from attn_cli.summaries.reducers.kinds.kind_sums import least_for_name
from attn_cli.summaries.scanned.corpus import Estimate, KindEstimate, ScannedCorpus, ScannedPlace
from attn_cli.summaries.scanned.differences import Paired, ScanDifferences, differences
from attn_cli.summaries.scanned.head import ScanExample, ScanHead, TokenCount, WeightRange
from attn_cli.summaries.scanned.heads import ScanHeads, ScannedHead
from attn_cli.summaries.scanned.student import two_sided_p
from attn_cli.text import excerpt, listed

_SCAN = "attn scan INPUT... -m MODEL -o DIR makes one"
_ABOUT = ("model", "type", "revision", "dtype", "device")
_QUANTILES = ("q05", "q25", "q50", "q75", "q95")
_KINDS = {kind.name: kind for kind in KINDS}
Row = dict[str, Any]


class ScanResults:
    """The results of a finished scan (statistics of heads over a corpus) in its folder: Parquet tables, and scan.json.

    folder    as it was named
    about     the model: model, type, revision, dtype, device
    options   everything that the numbers depend on
    progress  counts: documents, records, tokens, rejected, and reasons (rejected records by reason)

    Raises InputError for a folder without a scan, and for one whose scan is not finished or of another version.
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
    def corpus(self) -> ScannedCorpus:
        """What was scanned: how many documents and tokens, records left out by reason, and the files' names."""
        inputs = tuple(str(file["name"]) for file in self.options["files"])
        return ScannedCorpus(self.progress["documents"], self.progress["tokens"], self.progress["reasons"], inputs)

    @cached_property
    def heads(self) -> tuple[ScannedHead, ...]:
        """All heads in the order of the forward pass, each with its statistics over documents and its kind.

        The kind is what it attends to (previous token, induction, first token ...); None where it fits none.
        """
        statistics: dict[ScannedPlace, dict[str, Estimate]] = {}
        for place, row in self._rows(self.table("statistics")):
            if row["documents"]:
                statistics.setdefault(place, {})[row["statistic"]] = _estimate(row)
        kinds = self.table("kinds")
        named = {place: kind_estimate(row) for place, row in self._rows(kinds.filter(kinds["named"]))}
        return tuple(
            ScannedHead(place, named.get(place), row["kind"] != "not judged", statistics.get(place, {}))
            for place, row in self._rows(self.table("heads"))
        )

    @cached_property
    def blocks(self) -> dict[tuple[ScannedPlace, str], Blocks]:
        """The sums of each head statistic over blocks of neighbouring documents, by (head, name of the statistic)."""
        return {
            (place, row["statistic"]): Blocks(
                row["size"].bit_length() - 1, np.array(row["block"], np.int64), np.array(row["count"]),
                np.array(row["total"], np.float64),
            )
            for place, row in self._rows(self.table("blocks"))
        }  # fmt: skip

    def show(self, ranking: Ranking | None = None, kind: str | None = None, top: int | None = None) -> ScanHeads:
        """The scan's heads, as a result that can be printed or saved."""
        if kind is not None and kind not in _KINDS:
            raise InputError(f"--kind {excerpt(kind, 40)!r} is unknown", f"one of {', '.join(_KINDS)}")
        heads = [head for head in self.heads if kind in (None, head.kind_name)]
        if kind is not None:
            heads.sort(key=lambda head: 0.0 if head.kind is None else -head.kind.share)
        if ranking is not None:
            heads = ranking.of(heads, lambda head: head.mean(ranking.column))
        return ScanHeads(self.folder, self.corpus, tuple(heads[:top]), len(self.heads), ranking, kind)

    def head(self, layer: int, head: int, stream: str | None = None) -> ScanHead:
        """All that is known of one head: statistics, kinds, distances, tokens, examples."""
        found = self._find(layer, head, stream)
        kinds = [kind_estimate(row) for row in self._of(found.place, "kinds") if row["documents"]]
        sides: dict[str, list[TokenCount]] = {"to": [], "from": []}
        for row in self._of(found.place, "tokens"):
            sides[row["side"]].append(TokenCount(row["token"], row["count"], row["rows"], row["exact"]))
        distances = [WeightRange(row["nearest"], row["farthest"], _number(row["weight"]), row["baseline"])
                     for row in self._of(found.place, "distances")]  # fmt: skip
        positions = [WeightRange(row["first"], row["last"], _number(row["weight"]), row["baseline"])
                     for row in self._of(found.place, "positions")]  # fmt: skip
        parts = [(row["part"], row["weight"], row["baseline"]) for row in self._of(found.place, "parts")]
        examples = [_example(row) for row in self._of(found.place, "examples")]
        return ScanHead(
            str(self.about["model"]), self.folder, self.corpus, found, tuple(kinds), tuple(distances),
            tuple(positions), tuple(sides["from"]), tuple(sides["to"]), tuple(parts), tuple(examples),
        )  # fmt: skip

    def text(self, document: int, piece: int = 0) -> str:
        """The text of a document, or of piece `piece` of it, as the model read it."""
        files = tuple(CorpusFile(file["name"], file["kind"]) for file in self.options["files"])
        for file, before in zip(files, self.options["files"], strict=True):
            if file.is_stdin:
                raise InputError("the scan was of standard input, which can't be read again", "scan a file")
            if content_hash(file.path) != before["hash"]:
                raise InputError(f"{excerpt(file.name)} has changed since the scan", "scan once more")
        found = next(Corpus(files, tuple(self.options["fields"])).documents(document, document + 1), None)
        if not isinstance(found, Document):
            why = (
                f"has no text: {found.reason}"
                if found is not None
                else f"isn't there: {self.progress['records']:,} are"
            )
            raise InputError(
                f"document {document} {why}", "attn scan show DIR --head LAYER.HEAD -f csv names documents"
            )
        examples = self.table("examples").select(["document", "piece", "first", "last"]).to_pylist()
        spans = (
            (row["first"], row["last"]) for row in examples if (row["document"], row["piece"]) == (document, piece)
        )
        span = next(spans, None)
        if span is None and piece > 0:
            raise InputError(
                f"piece {piece} of document {document} has no example", "attn scan show DIR --head lists them"
            )
        return found.text if span is None else found.text[slice(*span)]

    def _find(self, layer: int, head: int, stream: str | None) -> ScannedHead:
        heads = [each for each in self.heads if stream in (None, each.place.stream)]
        layers = sorted({each.place.layer for each in heads})
        layer = layer + layers[-1] + 1 if layer < 0 and layers else layer
        inside = sorted({each.place.head for each in heads if each.place.layer == layer})
        head = head + inside[-1] + 1 if head < 0 and inside else head
        found = [each for each in heads if (each.place.layer, each.place.head) == (layer, head)]
        if not found:
            there = f"layer {layer} has heads {ranges(inside)}" if inside else f"layers: {ranges(layers)}"
            raise InputError(f"the scan has no head {layer}.{head}", there)
        streams = list(dict.fromkeys(each.place.stream for each in found))
        if len(streams) > 1:
            raise InputError(
                f"{layer}.{head} is a head of {listed(streams)}", f"--head {streams[0]}:{layer}.{head} chooses"
            )
        return found[0]

    def _rows(self, table: Any) -> Iterator[tuple[ScannedPlace, Row]]:
        return ((self._place(row), row) for row in table.to_pylist())

    def _of(self, place: ScannedPlace, name: str) -> Iterator[Row]:
        import pyarrow.compute

        table, equal = self.table(name), pyarrow.compute.equal
        mask = pyarrow.compute.and_(equal(table["layer"], place.layer), equal(table["head"], place.head))
        return (row for found, row in self._rows(table.filter(mask)) if found == place)

    @cached_property
    def _crowded(self) -> set[tuple[str, int]]:
        names = self.table("heads").select(["stream", "layer", "module", "call"]).to_pylist()
        modules = {tuple(row.values()) for row in names}
        layers = [module[:2] for module in modules]
        return {layer for layer in layers if layers.count(layer) > 1}

    def _place(self, row: Row) -> ScannedPlace:
        several = (row["stream"], row["layer"]) in self._crowded
        module = (row["module"], row["call"]) if several else ("", 0)
        return ScannedPlace(row["stream"], row["layer"], row["head"], row["kv_head"], *module)


def open_scan(folder: str) -> ScanResults:
    """The results in the folder of a finished scan; InputError for any other folder."""
    return ScanResults(folder)


def kind_estimate(row: Row) -> KindEstimate:
    """A head's numbers for one kind, from a row of the table `kinds`, with how certain it is of that kind, 0 to 1."""
    kind = _KINDS[row["kind"]]
    numbers = {name: _number(row[name]) for name in ("share", "share_low", "share_high", "weight", "baseline")}
    share, baseline, control = numbers["share"], numbers["baseline"], row["control"]
    least = float(least_for_name(kind, baseline, _number(control)))
    error = np.sqrt(_number(row["share_variance"]) / row["documents"]) if row["documents"] > 1 else np.nan
    far = (share - least) / error if error > 0 else np.nan
    below = float(two_sided_p(far, row["documents"] - 1)) / 2
    certainty = 1 - below if far > 0 else below
    return KindEstimate(
        row["kind"], row["documents"], **numbers, control=control, named=row["named"], certainty=certainty
    )


def _estimate(row: Row) -> Estimate:
    quantiles = {name: _number(row[name]) for name in _QUANTILES}
    deviation = float(np.sqrt(_number(row["variance"])))
    return Estimate(row["documents"], row["mean"], _number(row["low"]), _number(row["high"]), deviation, quantiles)


def _example(row: Row) -> ScanExample:
    spans = [_span(row["text"], row[f"{name}_start"], row[f"{name}_end"]) for name in ("query", "key")]
    return ScanExample(*(row[name] for name in ScanExample._fields[: -len(spans)]), *spans)


def _span(text: str, start: int, end: int) -> tuple[int, int] | None:
    return (start + len(text[start:end]) - len(text[start:end].lstrip()), end) if start >= 0 else None


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def differences_of(
    one: ScanResults, other: ScanResults, statistic: str | None = None, shown: int | None = None
) -> ScanDifferences:
    """The differences of two scans: every statistic of every head that both have, and the kinds that changed."""
    names = [each.name for each in STATISTICS] if statistic is None else [statistic]
    kinds = {head.place: head.kind_name for head in other.heads}
    common = [head for head in one.heads if head.place in kinds]
    if not common:
        raise InputError(f"the scans in {excerpt(one.folder)} and {excerpt(other.folder)} have no head in common",
                         "scans of models of one architecture can be compared")  # fmt: skip
    alone = len(one.heads) + len(other.heads) - 2 * len(common)
    renamed = tuple(
        (head.place, head.kind_name, kinds[head.place]) for head in common if head.kind_name != kinds[head.place]
    )
    same = one.progress.get("content", one) == other.progress.get("content")
    return ScanDifferences(
        one.folder, other.folder, one.corpus, other.corpus, str(other.about["model"]),
        differences(one.heads, other.heads, names, _paired(one, other) if same else None), renamed, alone, same, shown,
    )  # fmt: skip


def _paired(one: ScanResults, other: ScanResults) -> Paired:
    theirs = other.blocks
    errors = {key: paired(blocks, theirs[key]) for key, blocks in one.blocks.items() if key in theirs}
    return {key: (float(error), float(freedom)) for key, (error, freedom) in errors.items()}
