"""The numbers of every head in each text of a batch: those of `attn heads` and `attn heads --kinds`, by their code."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import NamedTuple

import numpy as np

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call, Place
from attn_cli.kernel.definition.mask import Intervals, intervals
from attn_cli.kernel.stats.wanted import RowStats, TopK, Wanted
from attn_cli.packed_call import PackedCall, PackedVisit
from attn_cli.prompt import EncodedText, Token
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.heads import STATISTICS, Heads, HeadStatistics
from attn_cli.summaries.reducers.heads import Rows as HeadRows
from attn_cli.summaries.reducers.heads import TextRows as HeadTextRows
from attn_cli.summaries.reducers.kinds.reducer import KindNumbers, first_is_sink, kind_numbers
from attn_cli.summaries.reducers.kinds.targets import KINDS, TextRows, factors_of, hashed, is_punctuation, targets_of
from attn_cli.summaries.sight import Sight

_LARGEST = TopK(1, scores=False)
PEAK = ("peak_weight", "peak_query", "peak_key")
NUMBERS = (*(each.name for each in STATISTICS), *(f"{kind.name}_share" for kind in KINDS), *PEAK)


class NotFiniteError(Exception):
    """Raised for texts from which the model computes NaN or Inf, with the list of their indices in the batch."""


class ModuleNumbers(NamedTuple):
    """One module's numbers of h heads in B texts: `NUMBERS` `[h, B]` by name, and what their kinds are judged by."""

    place: Place
    values: Mapping[str, np.ndarray]
    kinds: KindNumbers

    @classmethod
    def together(cls, parts: "Sequence[ModuleNumbers]") -> "ModuleNumbers":
        """Those of the texts of all, one after the other."""
        values = {name: np.concatenate([part.values[name] for part in parts], axis=1) for name in NUMBERS}
        return cls(parts[0].place, values, KindNumbers.together([part.kinds for part in parts]))


class BatchRows:
    """B texts one after the other in T rows of tokens; text t begins at row `starts[t]`."""

    def __init__(self, texts: Sequence[str], encoded: Sequence[EncodedText]) -> None:
        self.texts, self.encoded = tuple(texts), tuple(encoded)
        self.lengths = np.array([len(text.ids) for text in encoded])
        self.starts = np.cumsum(self.lengths) - self.lengths
        self.begin, self.stop = (np.repeat(x, self.lengths) for x in (self.starts, self.starts + self.lengths))
        self.ids, self.special, first = (np.concatenate([x[at] for x in encoded]) for at in range(3))
        self.count = len(self.ids)
        self.is_text = first >= 0 if (first >= 0).any() else np.ones(self.count, bool)
        number = np.repeat(np.arange(len(texts)), self.lengths) * (int(self.ids.max()) + 1) + self.ids
        self.names = np.where(self.special, -1 - np.arange(self.count), number)
        marks = [
            start >= 0 and is_punctuation(text[start:end])
            for text, tokens in zip(texts, encoded, strict=True)
            for start, end in zip(tokens.starts.tolist(), tokens.ends.tolist(), strict=True)
        ]
        self.delimiters = np.where(self.special, np.arange(self.count) > self.begin, marks)
        self.offsets = np.repeat([hashed(tokens.ids) for tokens in encoded], self.lengths)

    def tokens(self) -> list[tuple[Token, ...]]:
        """The tokens of each text, with their ids but without their text."""
        return [
            tuple(Token(at, "", number, special=special)
                  for at, (number, special) in enumerate(zip(text.ids.tolist(), text.special.tolist(), strict=True)))
            for text in self.encoded
        ]  # fmt: skip


class Asked:
    """What is asked of the rows of a batch whose queries see the keys in `seen`: made once for all layers."""

    def __init__(self, rows: BatchRows, seen: Intervals, *, learned_sink: bool, seed: int) -> None:
        self.rows, sight = rows, Sight(seen, rows.count)
        after = np.maximum(np.arange(rows.count) + 1, sight.first)  # each row's first key that is ahead
        is_causal = bool((sight.last <= after).all())
        self.at_sink = np.arange(rows.count) == rows.begin if is_causal else rows.special
        texts = TextRows(rows.begin, rows.stop, rows.names, self.at_sink, rows.offsets, rows.delimiters)
        self.targets = targets_of(texts, is_causal=is_causal, seed=seed)
        self.factors = factors_of(self.targets, sight, learned_sink=learned_sink)
        flags = (True, is_causal, learned_sink, True, False, False)
        asked = HeadRows([HeadTextRows(len(each), len(each), each, *flags) for each in rows.tokens()])
        asked.keys = {rule: np.where(of >= 0, of + rows.begin[:, None], -1) for rule, of in asked.keys.items()}
        self.statistics = asked
        self.wanted = self.targets.wanted | self.statistics.wanted() | Wanted(tops=(_LARGEST,))

    def wanted_of(self, n: int) -> Wanted:
        """The request for n rows, the last of which belong to no text."""
        more = n - self.rows.count
        sets = tuple(np.pad(keys, ((0, more), (0, 0)), constant_values=-1) for keys in self.wanted.key_sets)
        return replace(self.wanted, key_sets=sets, vectors=tuple(np.pad(x, (0, more)) for x in self.wanted.vectors))

    def numbers(self, calls: Sequence[Call], stats: RowStats) -> ModuleNumbers:
        """The numbers of the batch's texts, whose `calls` are one layer's, from the statistics of their rows."""
        stats, starts = replace(stats, wanted=self.wanted), self.rows.starts
        broken = ~np.isfinite(np.add.reduceat(np.asarray(stats.weight_sum), starts, axis=1)).all(axis=0)
        if broken.any():
            raise NotFiniteError(np.flatnonzero(broken).tolist())
        of_first = np.concatenate([first_is_sink(call) for call in calls], axis=1)
        kinds = kind_numbers(stats, self.targets, self.factors, of_first, starts)
        shares = {f"{kind.name}_share": share for kind, share in zip(KINDS, kinds.share, strict=True)}
        values = {**self.statistics.answered(stats), **shares, **self._peaks(stats)}
        return ModuleNumbers(calls[0].place, {name: values[name] for name in NUMBERS}, kinds)

    def _peaks(self, stats: RowStats) -> dict[str, np.ndarray]:
        """The largest weight of each head and text on a token that is no expected sink, its query and its key."""
        top, rows = stats.tops[_LARGEST], self.rows
        weights, keys = top.weights[..., 0], top.keys[..., 0]  # [h, T]
        counts = (keys >= 0) & ~self.at_sink[keys] & rows.is_text[keys] & rows.is_text
        weights = np.where(counts, weights, 0)
        most = np.maximum.reduceat(weights, rows.starts, axis=1)  # [h, B]
        is_most = weights == np.repeat(most, rows.lengths, axis=1)
        query = np.minimum.reduceat(np.where(is_most, np.arange(rows.count), rows.count), rows.starts, axis=1)
        key = np.take_along_axis(keys, query, axis=1)
        found = (np.where(most > 0, x - rows.starts, np.nan) for x in (query, key))
        return dict(zip(PEAK, (np.where(most > 0, most, np.nan), *found), strict=True))


class BatchCollector(PackedVisit):
    """Takes in the attention of a batch of texts, layer by layer; raises NotFiniteError at one that isn't finite."""

    def __init__(self, texts: Sequence[str], encoded: Sequence[EncodedText], seed: int) -> None:
        self.rows, self.seed = BatchRows(texts, encoded), seed
        self._single: dict[int, BatchRows] = {}
        self._asked: dict[tuple[object, ...], Asked] = {}
        self._found: dict[tuple[object, ...], list[ModuleNumbers]] = {}

    def of_texts(self, packed: PackedCall) -> None:
        """Take in a layer's attention to all texts, from one pass over its packed q, k and v."""
        mask, rows = packed.rule.mask, self.rows
        if not isinstance(mask, Intervals) or [x.stop - x.start for x in packed.texts] != rows.lengths.tolist():
            for call in packed.calls:
                self(call)
            return
        seen = Intervals(mask.first[: rows.count], mask.last[: rows.count])
        asked = self._asked_of(-1, rows, seen, learned_sink=packed.rule.sink is not None)
        wanted = packed.keep((Asked, id(asked)), lambda: asked.wanted_of(packed.n))
        self._add(asked.numbers(packed.calls, packed.stats_of_texts(wanted)))

    def __call__(self, call: Call) -> None:
        """Take in one text of a layer."""
        text = call.place.text
        if text not in self._single:
            self._single[text] = BatchRows([self.rows.texts[text]], [self.rows.encoded[text]])
        rows = self._single[text]
        seen = intervals(call.rule.mask, call.n, call.m) if isinstance(call, AttentionCall) else None
        if seen is None or call.place.stream == "cross" or not call.n == call.m == rows.count:
            self._add(_statistics_alone(call))
            return
        asked = self._asked_of(text, rows, seen, learned_sink=call.rule.sink is not None)
        try:
            self._add(asked.numbers([call], call.row_stats(asked.wanted)))
        except NotFiniteError:
            raise NotFiniteError([text]) from None

    def modules(self) -> list[ModuleNumbers]:
        """The numbers of all texts by module, in the order of their first calls."""
        return [ModuleNumbers.together(parts) for parts in self._found.values()]

    def _add(self, numbers: ModuleNumbers) -> None:
        place = numbers.place
        self._found.setdefault((place.stream, place.layer, place.name, place.call), []).append(numbers)

    def _asked_of(self, text: int, rows: BatchRows, seen: Intervals, *, learned_sink: bool) -> Asked:
        key = (text, seen.first.tobytes(), seen.last.tobytes(), learned_sink)
        if key not in self._asked:
            self._asked[key] = Asked(rows, seen, learned_sink=learned_sink, seed=self.seed)
        return self._asked[key]


def _statistics_alone(call: Call) -> ModuleNumbers:
    """Head statistics of a call whose queries are no keys, or whose mask is no interval."""
    part = reduce(call, HeadStatistics()).part(Heads)
    assert part is not None
    nothing = np.full((call.h, 1), np.nan)
    values = dict.fromkeys(NUMBERS, nothing) | {name: of[:, None] for name, of in part.statistics.items()}
    of_kinds, of_text = np.full((len(KINDS), call.h, 1), np.nan), np.zeros((len(KINDS), 1))
    per_head = ("weight", "share", "non_sink_weight", "row_support", "control")
    numbers = {x.name: of_kinds if x.name in per_head else of_text for x in fields(KindNumbers)}
    return ModuleNumbers(call.place, values, KindNumbers(**numbers | {"first_is_sink": first_is_sink(call)}))
