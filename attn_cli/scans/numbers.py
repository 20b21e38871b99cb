"""The numbers of every head in each text of a batch: those of `attn heads` and `attn heads --kinds`, by their code."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call, Place
from attn_cli.kernel.stats.wanted import RowStats, TopK, Wanted
from attn_cli.prompt import EncodedText, Token
from attn_cli.summaries.reducers.heads import STATISTICS, HeadStatistics
from attn_cli.summaries.reducers.kinds.reducer import HeadKindsReducer, KindNumbers
from attn_cli.summaries.reducers.kinds.targets import KINDS
from attn_cli.summaries.sinks import expected_sinks

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


class BatchCollector:
    """Takes in the attention of a batch of texts, layer by layer, a text at a time."""

    def __init__(self, texts: Sequence[str], encoded: Sequence[EncodedText], seed: int) -> None:
        self._tokens = [_tokens(*each) for each in zip(texts, encoded, strict=True)]
        self._kinds = [HeadKindsReducer(seed=seed) for _ in texts]
        self._statistics = [HeadStatistics() for _ in texts]
        self._found: dict[tuple[object, ...], list[ModuleNumbers]] = {}
        self._broken: set[int] = set()

    def __call__(self, call: Call) -> None:
        """Take in one text of a layer."""
        place, tokens = call.place, self._tokens[call.place.text]
        if isinstance(call, AttentionCall) and place.stream != "cross" and call.n == call.m == len(tokens):
            call = replace(call, queries=tokens, keys=tokens)
        kinds, statistics = self._kinds[place.text], self._statistics[place.text]
        wanted = statistics.wanted(call) | kinds.wanted_numbers(call) | Wanted(tops=(_LARGEST,))
        stats = call.row_stats(wanted)
        if not np.isfinite(np.asarray(stats.weight_sum)).all():
            self._broken.add(place.text)
        of_kinds = kinds.numbers(call, stats)
        values = {
            **statistics.part(call, stats).statistics,
            **{f"{kind.name}_share": share[:, 0] for kind, share in zip(KINDS, of_kinds.share, strict=True)},
            **_peaks(call, stats),
        }
        numbers = ModuleNumbers(place, {name: values[name][:, None] for name in NUMBERS}, of_kinds)
        self._found.setdefault((place.stream, place.layer, place.name, place.call), []).append(numbers)

    def modules(self) -> list[ModuleNumbers]:
        """The numbers of all texts by module, in the order of their first calls; NotFiniteError for NaN or Inf."""
        if self._broken:
            raise NotFiniteError(sorted(self._broken))
        return [ModuleNumbers.together(parts) for parts in self._found.values()]


def _tokens(text: str, encoded: EncodedText) -> tuple[Token, ...]:
    made = []
    for at, (number, special, start, end) in enumerate(zip(*(x.tolist() for x in encoded), strict=True)):
        token = Token(at, "", number, special=special)
        made.append(token if start < 0 else replace(token, text=text[start:end], start=start, end=end))
    return tuple(made)


def _peaks(call: Call, stats: RowStats) -> dict[str, np.ndarray]:
    """The largest weight of each head on a token that is no expected sink, its query and its key, `[h]` each."""
    top, is_text = stats.tops[_LARGEST], np.array([token.start is not None for token in call.keys])
    weights, keys = top.weights[..., 0], top.keys[..., 0]  # [h, n]
    counts = is_text if is_text.any() else np.ones(call.m, bool)
    rows = counts[call.m - call.n :] if call.n <= call.m else np.ones(call.n, bool)
    allowed = counts & ~np.isin(np.arange(call.m), expected_sinks(call))
    weights = np.where((keys >= 0) & allowed[keys] & rows, weights, 0)
    query = weights.argmax(axis=-1)[:, None]  # the first of equal ones
    most, key = (np.take_along_axis(x, query, axis=-1)[:, 0] for x in (weights, keys))
    return dict(zip(PEAK, (np.where(most > 0, x, np.nan) for x in (most, query[:, 0], key)), strict=True))
