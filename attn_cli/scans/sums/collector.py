"""Takes in the attention of a batch, layer by layer, and hands over its sums when the model has run."""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call, Place
from attn_cli.kernel.definition.mask import Intervals, intervals
from attn_cli.kernel.stats.wanted import MOMENTS, ColumnSums, RankedKeys, RowStats, Wanted
from attn_cli.packed_call import PackedCall, PackedVisit
from attn_cli.scans.numbers.batch_targets import LARGEST, BatchTargets
from attn_cli.scans.numbers.document_numbers import BASELINE_NAMES, NAMES, STATISTIC_NAMES, values_of
from attn_cli.scans.numbers.examples import EXAMPLE_KINDS, examples_of
from attn_cli.scans.numbers.ranges import STEPS
from attn_cli.scans.read.token_rows import TokenRows
from attn_cli.scans.sums.blocks import Blocks
from attn_cli.scans.sums.quantiles import Quantiles
from attn_cli.scans.sums.sums import ModuleHeads, ModuleSums, Moments, PartSums, Ranges, TokenCounts
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.heads import Heads, HeadStatistics

_OF_ROWS = {*MOMENTS, "key_sums", "vector_sums"}


class PaddedRows:
    """Moves statistics between R padded rows (`real` `[R]`: no padding) and the T real ones, the first of n."""

    def __init__(self, real: np.ndarray, n: int) -> None:
        self.count, self.n, self.places = len(real), n, np.flatnonzero(real)
        self._ahead = self.places - np.arange(len(self.places))  # [T], the same in all rows of a text

    def seen(self, seen: Intervals) -> Intervals:
        """The keys that each of the R padded rows sees, as numbers of these rows; padding sees none."""
        bounds = np.zeros((2, self.count), np.int32)
        for bound, of_packed in zip(bounds, (seen.first, seen.last), strict=True):
            bound[self.places] = of_packed[: len(self.places)] + self._ahead
        return Intervals(*bounds)

    def packed(self, wanted: Wanted) -> Wanted:
        """The request `wanted` for statistics of all R padded rows, as one for the n packed rows."""
        vectors = np.zeros((len(wanted.vectors), self.n), np.float32)
        for vector, of_rows in zip(vectors, wanted.vectors, strict=True):
            vector[: len(self.places)] = of_rows[self.places]
        return replace(wanted, key_sets=tuple(map(self._packed_keys, wanted.key_sets)), vectors=tuple(vectors))

    def _packed_keys(self, keys: np.ndarray) -> np.ndarray:
        packed, mine = np.full((self.n, keys.shape[1]), -1, np.int32), keys[self.places]
        packed[: len(mine)] = np.where(mine < 0, -1, mine - self._ahead[:, None])
        return packed

    def stats(self, stats: RowStats, wanted: Wanted) -> RowStats:
        """The statistics of the T packed rows as an answer to the request `wanted` for R padded rows, 0 in padding."""
        of_rows: dict[str, Any] = {
            field.name: self._padded(getattr(stats, field.name))
            for field in fields(stats)
            if field.name in _OF_ROWS and getattr(stats, field.name) is not None
        }
        sums = {}
        for each, received in stats.column_sums.items():
            sums[each] = np.zeros((len(received), self.count))
            sums[each][:, self.places] = received[:, : len(self.places)]
        bins = tuple(map(self._padded, stats.distance_sums))
        tops = {top: self._padded_top(ranked) for top, ranked in stats.tops.items()}
        return RowStats(wanted, **of_rows, distance_sums=bins, column_sums=sums, tops=tops)

    def _padded(self, x: np.ndarray) -> np.ndarray:
        if len(self.places) == self.count:
            return x
        padded = np.zeros((len(x), self.count, *x.shape[2:]), x.dtype)
        padded[:, self.places] = x
        return padded

    def _padded_top(self, ranked: RankedKeys) -> RankedKeys:
        keys = np.where(ranked.keys >= 0, ranked.keys + self._ahead[:, None], -1)
        padded = np.full((len(keys), self.count, keys.shape[2]), -1)
        padded[:, self.places] = keys
        scores = None if ranked.scores is None else self._padded(ranked.scores)
        return RankedKeys(self._padded(ranked.weights), scores, padded)


class NotFiniteError(Exception):
    """Raised for texts from which the model computes NaN or Inf; `texts` are their indices in the batch."""

    def __init__(self, texts: Sequence[int]) -> None:
        super().__init__(texts)
        self.texts = tuple(texts)


class ScannedText(NamedTuple):
    """A document of a batch or its piece, counted from 0; `parts` are (name, start, end) in characters."""

    document: int
    piece: int
    parts: tuple[tuple[str, int, int], ...] = ()


ModuleKey = tuple[str, int, str, int]
LeastWeights = Callable[[ModuleKey], np.ndarray | float]


class BatchCollector(PackedVisit):
    """Collects the sums over one batch, for each attention module, as its layers run.

    least  a function from a module to the smallest weight of a new example `[h, kinds]`, or 0

    Raises NotFiniteError at a layer whose weights are not finite.
    """

    def __init__(self, rows: TokenRows, texts: Sequence[ScannedText], seed: int, least: LeastWeights) -> None:
        self.rows, self.texts, self.seed, self.least = rows, texts, seed, least
        self._targets: dict[tuple[int | None, bytes, bytes, bool], BatchTargets] = {}
        self._single: dict[int, TokenRows] = {}
        self.modules: dict[ModuleKey, list[ModuleSums]] = {}

    def of_texts(self, packed: PackedCall) -> None:
        """Add the statistics of a layer's heads in all texts to the sums, from one pass over its packed q, k and v."""
        rows, mask = self.rows, packed.rule.mask
        if not isinstance(mask, Intervals) or [x.stop - x.start for x in packed.texts] != rows.lengths.tolist():
            for call in packed.calls:
                self(call)
            return
        padded = packed.keep(PaddedRows, lambda: PaddedRows(rows.real, packed.n))
        seen = packed.keep((PaddedRows, "seen"), lambda: padded.seen(mask))
        targets = self._targets_of(None, rows, seen, learned=packed.rule.sink is not None)
        wanted = targets.wanted
        packed_wanted = packed.keep((PaddedRows, id(targets)), lambda: padded.packed(wanted))
        stats = padded.stats(packed.stats_of_texts(packed_wanted), wanted)
        self._check(rows.by_text(np.asarray(stats.weight_sum)), range(rows.count))
        self._add(packed.place, self._sums(packed.place, stats, targets, self.texts))

    def __call__(self, call: Call) -> None:
        """Take in one text of a layer."""
        text = call.place.text
        rows = self._rows_of(text)
        span = intervals(call.rule.mask, call.n, call.m) if isinstance(call, AttentionCall) else None
        own = call.n == call.m == rows.length and call.place.stream != "cross"
        if not own or span is None or not isinstance(call, AttentionCall):
            self._add(call.place, _statistics_alone(call, self.texts[text]))
            return
        targets = self._targets_of(text, rows, span, learned=call.rule.sink is not None)
        stats = call.row_stats(targets.wanted)
        self._check(np.asarray(stats.weight_sum)[:, None], [text])
        self._add(call.place, self._sums(call.place, stats, targets, [self.texts[text]]))

    def _targets_of(self, text: int | None, rows: TokenRows, span: Intervals, *, learned: bool) -> BatchTargets:
        key = (text, span.first.tobytes(), span.last.tobytes(), learned)
        if key not in self._targets:
            self._targets[key] = BatchTargets(rows, span, learned_sink=learned, seed=self.seed)
        return self._targets[key]

    def _rows_of(self, text: int) -> TokenRows:
        if text not in self._single:
            self._single[text] = self.rows.of_text(text)
        return self._single[text]

    def _check(self, mass: np.ndarray, texts: Sequence[int]) -> None:
        broken = ~np.isfinite(mass).all(axis=(0, 2))
        if broken.any():
            raise NotFiniteError([text for text, bad in zip(texts, broken.tolist(), strict=True) if bad])

    def _sums(self, place: Place, stats: RowStats, targets: BatchTargets, texts: Sequence[ScannedText]) -> ModuleSums:
        module = _module_place(place)
        least = np.broadcast_to(self.least(module.key), (len(place.heads), len(EXAMPLE_KINDS)))
        return _sums(module, stats, targets, texts, least)

    def _add(self, place: Place, sums: ModuleSums) -> None:
        self.modules.setdefault(_module_place(place).key, []).append(sums)

    def sums(self, most_tokens: int) -> list[ModuleSums]:
        """The sums of each attention module over all texts, in the order of the modules' first calls."""
        together = []
        for parts in self.modules.values():
            whole = parts[0]
            for part in parts[1:]:
                whole = whole.plus(part, most_tokens)
            together.append(whole)
        return together


def _module_place(place: Place) -> ModuleHeads:
    return ModuleHeads(place.stream, place.layer, place.name, place.call, place.heads, place.groups)


def _sums(
    place: ModuleHeads, stats: RowStats, targets: BatchTargets, texts: Sequence[ScannedText], least: np.ndarray
) -> ModuleSums:
    """The sums of a module over texts whose rows' statistics are known."""
    rows, (values, baselines) = targets.rows, values_of(stats, targets)
    top, keys = stats.tops[LARGEST].weights[..., 0], stats.tops[LARGEST].keys[..., 0]
    documents, pieces = np.array([text.document for text in texts]), np.array([text.piece for text in texts])
    h, statistics = len(top), values[: len(STATISTIC_NAMES)]
    received = rows.by_text(stats.column_sums[ColumnSums()])
    return ModuleSums(
        place,
        rows.count,
        Moments.of(values),
        Moments.of(baselines),
        Ranges(
            _padded(stats.distance_sums[0].sum(axis=1, dtype=np.float64), STEPS),
            _padded(targets.even_steps.sum(axis=0), STEPS),
        ),
        Ranges(received.sum(axis=1) @ targets.in_ranges, targets.even_received.sum(axis=0)),
        Quantiles.of(np.moveaxis(statistics, 0, 1).reshape(h * len(STATISTIC_NAMES), -1)),
        _token_counts(keys, targets),
        examples_of(top, keys, targets, (documents, pieces), least),
        _part_sums(received, targets, texts),
        Blocks.of(documents, statistics),
    )


def _padded(x: np.ndarray, count: int) -> np.ndarray:
    return np.concatenate([x, np.zeros((*x.shape[:-1], count - x.shape[-1]))], axis=-1)


def _token_counts(keys: np.ndarray, targets: BatchTargets) -> TokenCounts:
    rows = targets.rows
    ids, which = rows.vocabulary
    some = (keys >= 0) & rows.real
    at, size = np.maximum(keys, 0), len(ids)
    lead = np.arange(len(keys))[:, None] * size
    to = np.bincount((lead + which[at])[some], minlength=len(keys) * size)
    off_sinks = some & ~targets.sinks[at]
    queries = np.bincount(np.broadcast_to(lead + which, keys.shape)[off_sinks], minlength=len(keys) * size)
    of_key, of_query = (x.reshape(len(keys), size).astype(np.uint32) for x in (to, queries))
    lost = np.zeros((len(keys), 2), np.int64)
    return TokenCounts(ids, of_key, of_query, np.bincount(which[rows.real], minlength=size), lost)


def _part_sums(received: np.ndarray, targets: BatchTargets, texts: Sequence[ScannedText]) -> PartSums:
    """The weight that the tokens of each part receive; `received` is `[h, B, n]`."""
    rows = targets.rows
    sums = PartSums.none(len(received))
    if not any(text.parts for text in texts):
        return sums
    even = rows.by_text(targets.sight.along_columns(targets.even))
    for at, text in enumerate(texts):
        starts, ends = rows.encoded[at].starts, rows.encoded[at].ends
        names = tuple(dict.fromkeys(name for name, _, _ in text.parts))
        inside = np.zeros((len(starts), len(names)))
        for name, first, last in text.parts:
            inside[(starts >= first) & (ends <= last) & (starts >= 0), names.index(name)] = 1
        weight = received[:, at, : len(starts)] @ inside
        live = float(targets.live.reshape(rows.count, -1)[at].sum())
        sums |= PartSums(names, weight, even[at, : len(starts)] @ inside, live)
    return sums


def _statistics_alone(call: Call, text: ScannedText) -> ModuleSums:
    """The sums of a call whose queries are no keys, or whose mask is no interval: head statistics."""
    part = reduce(call, HeadStatistics()).part(Heads)
    assert part is not None
    values = np.full((len(NAMES), call.h, 1), np.nan)
    for at, name in enumerate(STATISTIC_NAMES):
        values[at, :, 0] = part.statistics[name]
    place = _module_place(call.place)
    sums = ModuleSums.none(place)
    sums.documents, sums.values = 1, Moments.of(values)
    sums.baselines = Moments.of(np.full((len(BASELINE_NAMES), 1), np.nan))
    sums.blocks = Blocks.of(np.array([text.document]), values[: len(STATISTIC_NAMES)])
    sums.quantiles = Quantiles.of(np.moveaxis(values[: len(STATISTIC_NAMES)], 0, 1).reshape(-1, 1))
    return sums
