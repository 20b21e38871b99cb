"""The numbers of every head in each text of a batch: those of `attn heads` and `attn heads --kinds`, by their code."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call, Place
from attn_cli.kernel.stats.wanted import RankedKeys, RowNumbers, RowStats, TopK, Wanted
from attn_cli.prompt import EncodedText, Token
from attn_cli.summaries.reducers.heads import STATISTICS, HeadStatistics, Rows, SeenRows, TextRows, statistics_of
from attn_cli.summaries.reducers.kinds.reducer import (
    HeadKindsReducer,
    KindNumbers,
    first_is_sink,
    kind_numbers,
    sink_signs,
)
from attn_cli.summaries.reducers.kinds.targets import BACK, KINDS, RowFactors, Targets

_LARGEST = TopK(1, scores=False)
_CELLS = 2**19  # heads times rows of the calls that are held at a time: some 100 bytes each
PEAK = ("peak_weight", "peak_query", "peak_key")
JUDGED = ("share", "non_sink_weight", "row_support", "control", "baseline", "rows", "control_rows", "first_is_sink")
_Gave = tuple[Place, RowStats, tuple[np.ndarray, np.ndarray]]  # a call's statistics, and its signs of sinks
SHARES = {kind.name: f"{kind.name}_share" for kind in KINDS if kind not in BACK[-3:]}  # of rare kinds sums are enough
NUMBERS = (*(each.name for each in STATISTICS), *SHARES.values(), *PEAK)


class NotFiniteError(Exception):
    """Raised for texts from which the model computes NaN or Inf, with the list of their indices in the batch."""


class ModuleNumbers(NamedTuple):
    """One module's numbers of h heads in B texts.

    values  `NUMBERS` `[h, B]` by name
    sums    `JUDGED`, `share_squared` `[K, h]` of K kinds, added up over texts, under NAME.count how many have one
    """

    place: Place
    values: Mapping[str, np.ndarray]
    sums: Mapping[str, np.ndarray]

    @classmethod
    def together(cls, parts: "Sequence[ModuleNumbers]") -> "ModuleNumbers":
        """Those of the texts of all, one after the other."""
        values = {name: np.concatenate([part.values[name] for part in parts], axis=1) for name in NUMBERS}
        sums = {name: np.sum([part.sums[name] for part in parts], axis=0) for name in parts[0].sums}
        return cls(parts[0].place, values, sums)


class BatchCollector:
    """Takes in the attention of a batch of texts, layer by layer, a text at a time."""

    def __init__(self, texts: Sequence[str], encoded: Sequence[EncodedText], seed: int) -> None:
        self._tokens = [_tokens(*each) for each in zip(texts, encoded, strict=True)]
        self._kinds = [HeadKindsReducer(seed=seed) for _ in texts]
        self._statistics = [HeadStatistics() for _ in texts]
        self._wanted: dict[tuple[int, ...], tuple[Rows, Targets, Wanted]] = {}
        self._held: dict[tuple[int, ...], tuple[Rows, Targets, RowFactors, list[_Gave]]] = {}
        self._cells = 0
        self._found: dict[tuple[object, ...], list[ModuleNumbers]] = {}
        self._broken: set[int] = set()

    def __call__(self, call: Call) -> None:
        """Take in one text of a layer."""
        place, tokens = call.place, self._tokens[call.place.text]
        if isinstance(call, AttentionCall) and place.stream != "cross" and call.n == call.m == len(tokens):
            call = replace(call, queries=tokens, keys=tokens)
        kinds, rows = self._kinds[place.text], self._statistics[place.text].rows_of(call)
        targets, shows_weights = kinds.targets(call), call.q is None
        asked = (id(rows), id(targets), shows_weights)
        if asked not in self._wanted:
            own = Wanted(seen=shows_weights, tops=(_LARGEST,))
            self._wanted[asked] = rows, targets, rows.wanted() | targets.wanted | own
        stats = call.row_stats(self._wanted[asked][-1])
        if not np.isfinite(np.asarray(stats.weight_sum)).all():
            self._broken.add(place.text)
        factors, _ = kinds.rows(call, stats)
        *_, alike = self._held.setdefault((*asked, id(factors)), (rows, targets, factors, []))
        alike.append((place, stats, sink_signs(call)))
        self._cells += call.h * call.n
        if self._cells > _CELLS:
            self._finish()

    def modules(self) -> list[ModuleNumbers]:
        """The numbers of all texts by module, in the order of their first calls; NotFiniteError for NaN or Inf."""
        if self._broken:
            raise NotFiniteError(sorted(self._broken))
        self._finish()
        return [ModuleNumbers.together(parts) for parts in self._found.values()]

    def _finish(self) -> None:
        """Make the numbers of all calls that are held; of a text's calls whose rows count alike, together."""
        made = [numbers for alike in self._held.values() for numbers in _numbers(*alike)]
        for numbers in sorted(made, key=lambda numbers: numbers.place.text):
            place = numbers.place
            self._found.setdefault((place.stream, place.layer, place.name, place.call), []).append(numbers)
        self._held, self._cells = {}, 0


def _numbers(rows: Rows, targets: Targets, factors: RowFactors, calls: Sequence[_Gave]) -> Iterator[ModuleNumbers]:
    places, each, signs = zip(*calls, strict=True)
    stats = _of_all_heads(each)
    is_sink = first_is_sink(*(np.concatenate(of_calls) for of_calls in zip(*signs, strict=True)))
    kinds = kind_numbers(stats, targets, factors, is_sink)
    shares = {f"{kind.name}_share": share[:, 0] for kind, share in zip(KINDS, kinds.share, strict=True)}
    values = {**statistics_of(SeenRows(rows, stats, None)), **shares, **_peaks(rows.text, targets, stats)}
    judged, stop = _judged(kinds), 0
    for place in places:
        heads = slice(stop, stop := stop + len(place.heads))
        sums = {name: x[:, heads] for name, x in judged.items()}
        yield ModuleNumbers(place, {name: values[name][heads, None] for name in NUMBERS}, sums)


def _judged(kinds: KindNumbers) -> dict[str, np.ndarray]:
    """What kinds are judged by in one text, 0 for none `[K, h]`, and under NAME.count 1 where the text has it."""
    sums: dict[str, np.ndarray] = {}
    for name in JUDGED:
        of_kinds = getattr(kinds, name)[..., 0]  # [K, h], [K] of all heads alike, or [h] of all kinds alike
        of_kinds = of_kinds[:, None] if of_kinds.ndim == 1 and name != "first_is_sink" else of_kinds
        of_kinds = np.broadcast_to(of_kinds, kinds.share.shape[:2])
        sums |= {name: np.nan_to_num(of_kinds.astype(np.float64)), f"{name}.count": (~np.isnan(of_kinds)).astype(int)}
    return sums | {"share_squared": np.nan_to_num(kinds.share[..., 0]) ** 2}


def _of_all_heads(parts: Sequence[RowStats]) -> RowStats:
    names: list[str] = [x.name for x in fields(RowNumbers) if getattr(parts[0], x.name) is not None] + ["masked"]
    tops = [part.tops[_LARGEST] for part in parts]
    largest = RankedKeys(np.concatenate([x.weights for x in tops]), None, np.concatenate([x.keys for x in tops]))
    numbers: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return RowStats(parts[0].wanted, tops={_LARGEST: largest}, **numbers)


def _tokens(text: str, encoded: EncodedText) -> tuple[Token, ...]:
    made = []
    for at, (number, special, start, end) in enumerate(zip(*(x.tolist() for x in encoded), strict=True)):
        token = Token(at, "", number, special=special)
        made.append(token if start < 0 else replace(token, text=text[start:end], start=start, end=end))
    return tuple(made)


def _peaks(text: TextRows, targets: Targets, stats: RowStats) -> dict[str, np.ndarray]:
    """The largest weight of each head on a token that is no expected sink, its query and its key, `[h]` each."""
    top, is_text = stats.tops[_LARGEST], np.array([token.start is not None for token in text.keys])
    weights, keys = top.weights[..., 0], top.keys[..., 0]  # [h, n]
    counts = is_text if is_text.any() else np.ones(text.m, bool)
    rows = counts[text.m - text.n :] if text.n <= text.m else np.ones(text.n, bool)
    allowed = counts & (targets.marks[1] > 0)
    weights = np.where((keys >= 0) & allowed[keys] & rows, weights, 0)
    query = weights.argmax(axis=-1)[:, None]  # the first of equal ones
    most, key = (np.take_along_axis(x, query, axis=-1)[:, 0] for x in (weights, keys))
    return dict(zip(PEAK, (np.where(most > 0, x, np.nan) for x in (most, query[:, 0], key)), strict=True))
