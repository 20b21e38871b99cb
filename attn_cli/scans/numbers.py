"""The numbers of every head in each text of a batch: those of `attn heads` and `attn heads --kinds`, by their code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np

from attn_cli.arrays import to_numpy
from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call, Place
from attn_cli.kernel.cpu import walk
from attn_cli.kernel.definition.mask import Ends, Mask, intervals
from attn_cli.kernel.stats.wanted import RankedKeys, RowNumbers, RowStats, TopK, Wanted
from attn_cli.prompt import EncodedText, Token
from attn_cli.summaries.reducers.heads import STATISTICS, HeadStatistics, Rows, SeenRows, statistics_of
from attn_cli.summaries.reducers.kinds.reducer import (
    HeadKindsReducer,
    KindNumbers,
    first_is_sink,
    kind_numbers,
    residual_lengths_of,
    sink_signs,
)
from attn_cli.summaries.reducers.kinds.targets import (
    BACK,
    KINDS,
    RowFactors,
    Targets,
    TextRows,
    factors_of,
    side_by_side,
    targets_of,
)
from attn_cli.summaries.sight import Sight
from attn_cli.summaries.sinks import expected_sinks

_LARGEST = TopK(1, scores=False)
PEAK = ("peak_weight", "peak_query", "peak_key")
JUDGED = ("share", "non_sink_weight", "row_support", "control", "baseline", "rows", "control_rows", "first_is_sink")
SHARES = {kind.name: f"{kind.name}_share" for kind in KINDS if kind not in BACK[-3:]}  # of rare kinds sums are enough
NUMBERS = (*(each.name for each in STATISTICS), *SHARES.values(), *PEAK)


class NotFiniteError(Exception):
    """Raised for texts from which the model computes NaN or Inf, with the list of their indices in the batch."""


class ModuleNumbers(NamedTuple):
    """One module's numbers of h heads in B texts.

    values  `NUMBERS` `[h, B]` by name, NaN where a text has none
    sums    `JUDGED`, `share_squared` `[K, h]` of K kinds, added up over texts, under NAME.count how many have one
    """

    place: Place
    values: Mapping[str, np.ndarray]
    sums: dict[str, np.ndarray]

    @classmethod
    def together(cls, parts: "Sequence[ModuleNumbers]") -> "ModuleNumbers":
        """Those of the texts of all, one after the other."""
        values = {name: np.concatenate([part.values[name] for part in parts], axis=1) for name in NUMBERS}
        sums = {name: np.sum([part.sums[name] for part in parts], axis=0) for name in parts[0].sums}
        return cls(parts[0].place, values, sums)


@dataclass(frozen=True)
class _OwnText(Mask):
    """The mask of several texts one after the other: a row sees keys of its own text, `first` to before `last`."""

    ends: Ends | None = None

    def interval(self, i: np.ndarray, m: int) -> Ends | None:
        return None if self.ends is None else Ends(self.ends.first[i], self.ends.last[i])


class _Texts(NamedTuple):
    """B texts of at most n tokens, and what is asked about their rows `[B * n]`, each layer the same."""

    tokens: tuple[Token, ...]
    asked: Rows
    targets: Targets
    factors: RowFactors
    wanted: Wanted


class BatchCollector:
    """Takes in the attention of a batch of texts, layer by layer; texts that suit are computed together."""

    def __init__(self, texts: Sequence[str], encoded: Sequence[EncodedText], seed: int) -> None:
        self._tokens, self._seed = [_tokens(*each) for each in zip(texts, encoded, strict=True)], seed
        self._reducers = [(HeadKindsReducer(seed=seed), HeadStatistics()) for _ in texts]
        self._spans: dict[tuple[int, int], tuple[Mask, Ends | None, bool]] = {}
        self._texts: dict[tuple[object, ...], _Texts] = {}
        self._held: list[AttentionCall] = []  # of one module
        self._found: dict[tuple[object, ...], ModuleNumbers] = {}
        self._broken: set[int] = set()

    def __call__(self, call: Call) -> None:
        """Take in one text of a layer."""
        place, tokens = call.place, self._tokens[call.place.text]
        if self._held and _module(self._held[0].place) != _module(place):
            self._finish()
        if not isinstance(call, AttentionCall) or place.stream == "cross" or not call.n == call.m == len(tokens):
            self._alone(call)
            return
        is_fit = bool(self._held) or walk.suits(call.q, call.k, call.v, call.rule)
        if not is_fit or call.output is not None or call.rule.bias is not None or self._spans_of(call)[1] is None:
            self._alone(replace(call, queries=tokens, keys=tokens))
        else:  # copies: the model may go on to write in the memory of its own
            q, k, v = (np.array(to_numpy(x)) for x in (call.q, call.k, call.v))
            lengths = residual_lengths_of(call)
            made_of = replace(call.ingredients, residual_lengths=lambda: lengths)
            self._held.append(replace(call, q=q, k=k, v=v, queries=tokens, keys=tokens, ingredients=made_of))

    def modules(self) -> list[ModuleNumbers]:
        """The numbers of all texts by module, in the order of their first calls; NotFiniteError for NaN or Inf."""
        self._finish()
        if self._broken:
            raise NotFiniteError(sorted(self._broken))
        return list(self._found.values())

    def _finish(self) -> None:
        """Make the numbers of the calls that are held."""
        held, self._held = self._held, []
        for is_causal in (True, False):
            alike = [call for call in held if self._spans_of(call)[2] == is_causal]
            if alike:
                self._together(alike, is_causal=is_causal)

    def _spans_of(self, call: Call) -> tuple[Mask, Ends | None, bool]:
        """The call's mask, the keys that each row sees if they have no holes, and whether it is causal."""
        mask, key = call.rule.mask, (id(call.rule.mask), call.n)
        if key not in self._spans:
            self._spans[key] = mask, intervals(mask, call.n, call.m), call.is_causal
        return self._spans[key]

    def _together(self, calls: Sequence[AttentionCall], *, is_causal: bool) -> None:
        """Make the numbers of some texts as one whose rows see keys of their own text, or else of each."""
        n, rule, counts = max(call.n for call in calls), calls[0].rule, np.array([call.n for call in calls])
        spans = [self._spans_of(call)[1] or () for call in calls]
        moved = ([x + at * n for at, x in enumerate(of_texts)] for of_texts in zip(*spans, strict=True))
        ends = Ends(*(side_by_side(of_texts, n) for of_texts in moved))
        key = (*(call.place.text for call in calls), is_causal, rule.sink is None, *(x.tobytes() for x in ends))
        texts = self._texts[key] = self._texts.get(key) or self._asked_of(calls, ends, n, is_causal=is_causal)
        q, k, v = (side_by_side([getattr(call, x).swapaxes(0, 1) for call in calls], n).swapaxes(0, 1) for x in "qkv")
        each = [lengths for call in calls if (lengths := residual_lengths_of(call)) is not None]
        made_of = replace(calls[0].ingredients, residual_lengths=lambda: side_by_side(each, n) if each else None)
        rule = replace(rule, mask=_OwnText(ends=ends))
        whole = AttentionCall(q, k, v, rule, calls[0].place, texts.tokens, texts.tokens, ingredients=made_of)
        stats = whole.compiled_stats(texts.wanted)
        if stats is None:
            for call in calls:
                self._alone(call)
            return
        norms, vectors = (x.reshape(len(x), -1, n) for x in sink_signs(whole))
        self._note(calls, texts, stats, first_is_sink(norms, vectors, counts))

    def _asked_of(self, calls: Sequence[AttentionCall], ends: Ends, n: int, *, is_causal: bool) -> "_Texts":
        rows = TextRows.together([TextRows.of(call.keys, expected_sinks(call)) for call in calls], n)
        targets = targets_of(rows, is_causal=is_causal, seed=self._seed)
        asked = Rows.together([self._reducers[call.place.text][1].rows_of(call) for call in calls], n)
        factors = factors_of(targets, Sight(ends, len(ends.first)), learned_sink=calls[0].rule.sink is not None)
        tokens = tuple(token for call in calls for token in (*call.keys, *call.keys[-1:] * (n - call.n)))
        return _Texts(tokens, asked, targets, factors, asked.wanted() | targets.wanted | Wanted(tops=(_LARGEST,)))

    def _alone(self, call: Call) -> None:
        reducer, statistics = self._reducers[call.place.text]
        targets, asked = reducer.targets(call), statistics.rows_of(call)
        stats = call.row_stats(asked.wanted() | targets.wanted | Wanted(seen=call.q is None, tops=(_LARGEST,)))
        texts = _Texts(call.keys, asked, targets, reducer.rows(call, stats)[0], stats.wanted)
        self._note([call], texts, stats, first_is_sink(*sink_signs(call))[:, None])

    def _note(self, calls: Sequence[Call], texts: "_Texts", stats: RowStats, is_sink: np.ndarray) -> None:
        """Note the numbers of one module in some texts."""
        stats, at, place = _by_text(stats, len(calls)), [call.place.text for call in calls], calls[0].place
        is_finite = np.isfinite(np.asarray(stats.weight_sum)).all(axis=(0, 2))
        self._broken.update(np.array(at)[~is_finite].tolist())
        kinds = kind_numbers(stats, texts.targets, texts.factors, is_sink)
        shares = {f"{kind.name}_share": share for kind, share in zip(KINDS, kinds.share, strict=True)}
        values = {**statistics_of(SeenRows(texts.asked, stats, None)), **shares, **_peaks(texts, stats)}
        if _module(place) not in self._found:
            unknown = {name: np.full((calls[0].h, len(self._tokens)), np.nan) for name in NUMBERS}
            self._found[_module(place)] = ModuleNumbers(place, unknown, {})
        found = self._found[_module(place)]
        for name in NUMBERS:
            found.values[name][:, at] = values[name]
        for name, x in _judged(kinds).items():
            found.sums[name] = found.sums.get(name, 0) + x


def _module(place: Place) -> tuple[object, ...]:
    return place.stream, place.layer, place.name, place.call


def _by_text(stats: RowStats, b: int) -> RowStats:
    """Statistics of rows `[h, B * n, ...]` as `[h, B, n, ...]`."""
    top, names = stats.tops[_LARGEST], [x.name for x in fields(RowNumbers) if getattr(stats, x.name) is not None]
    whole = {name: getattr(stats, name) for name in (*names, "masked")} | {"weights": top.weights, "keys": top.keys}
    cut: dict[str, Any] = {name: np.reshape(x, (len(x), b, -1, *x.shape[2:])) for name, x in whole.items()}
    return RowStats(stats.wanted, tops={_LARGEST: RankedKeys(cut.pop("weights"), None, cut.pop("keys"))}, **cut)


def _judged(kinds: KindNumbers) -> dict[str, np.ndarray]:
    """What kinds are judged by, added up over texts `[K, h]`, and under NAME.count how many texts have it."""
    sums = {"share_squared": (np.nan_to_num(kinds.share) ** 2).sum(axis=-1)}
    for name in JUDGED:
        of_kinds = getattr(kinds, name)  # [K, h, B], [K, B] of all heads alike, or [h, B] of all kinds alike
        of_kinds = of_kinds[:, None] if of_kinds.ndim == 2 and name != "first_is_sink" else of_kinds
        of_kinds = np.broadcast_to(of_kinds, kinds.share.shape).astype(np.float64)
        sums |= {name: np.nansum(of_kinds, axis=-1), f"{name}.count": (~np.isnan(of_kinds)).sum(axis=-1)}
    return sums


def _tokens(text: str, encoded: EncodedText) -> tuple[Token, ...]:
    made = []
    for at, (number, special, start, end) in enumerate(zip(*(x.tolist() for x in encoded), strict=True)):
        first, last = (start, end) if start >= 0 else (None, None)
        made.append(Token(at, text[start:end] if start >= 0 else "", number, first, last, special))
    return tuple(made)


def _peaks(texts: _Texts, stats: RowStats) -> dict[str, np.ndarray]:
    """The largest weight of each head on a token that is no expected sink, its query and its key, `[h, B]` each."""
    top = stats.tops[_LARGEST]
    weights, keys = top.weights[..., 0], top.keys[..., 0]  # [h, B, n]
    _, b, n = weights.shape
    is_text = np.array([token.start is not None for token in texts.tokens]).reshape(b, -1)  # [B, m]
    counts, m = is_text | ~is_text.any(axis=-1, keepdims=True), is_text.shape[1]
    rows = counts[:, m - n :] if n <= m else np.ones((b, n), bool)
    allowed = counts.reshape(-1) & (texts.targets.marks[1] > 0)
    weights = np.where((keys >= 0) & allowed[keys] & rows, weights, 0)
    query = weights.argmax(axis=-1)[..., None]  # the first of equal ones
    most, key = (np.take_along_axis(x, query, axis=-1)[..., 0] for x in (weights, keys))
    found = (most, query[..., 0], key - m * np.arange(b))
    return dict(zip(PEAK, (np.where(most > 0, x, np.nan) for x in found), strict=True))
