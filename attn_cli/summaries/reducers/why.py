"""The keys that a query attends to most, or some that were picked, with what each one's score is made of."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attn_cli.arrays import at_least_float32, to_numpy
from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call
from attn_cli.errors import InputError
from attn_cli.kernel.bands.band import Band
from attn_cli.kernel.bands.masked_cells import lowest_of
from attn_cli.kernel.bands.picked_rows import RowPlaces
from attn_cli.kernel.definition.positions import Turning
from attn_cli.kernel.lessons.why import Columns, RowTerms, columns_of, row_terms
from attn_cli.kernel.stats.topk import heaviest
from attn_cli.kernel.stats.wanted import RowStats, Wanted
from attn_cli.summaries.reduce import Part, Summary

# The numbers of a cell: of a query and a key.
CELL = ("weight", "score", "mean_score", "content", "position", "bias", "rank", "content_rank", "distance_rank")
_ARRAYS = {"bias": "biases"}


@dataclass(frozen=True, eq=False)
class Why(Part):
    """Scores explained, each of a query and key (a cell), in the order of heads, queries and weights.

    cells    rows: head (its place in the call), query, key, the numbers of `CELL`, visible (how many keys the query
              sees), cap_factor (the contrast after a softcap over that before), sink_weight, None where there is none;
              contrasts of every pair or column of the dot product, less its mean over the visible keys `[terms]`
    turning  how rotary positions turned these pairs; None where nothing says so
    """

    name: ClassVar[str] = "why"

    cells: tuple[dict[str, Any], ...]
    columns: Columns
    turning: Turning | None

    def tables(self, summary: Summary) -> dict[str, Iterable[dict[str, Any]]]:
        """`terms`, a row per cell and term of its dot product, and `why`, a row per cell with its `pairs`."""
        return {"terms": self._terms(summary), "why": self._cells(summary)}

    def _terms(self, summary: Summary) -> Iterator[dict[str, Any]]:
        for cell in self.cells:
            lead = _named(cell, summary)
            for pair, contrast in enumerate(cell["contrasts"].tolist()):
                columns = "+".join(map(str, self.columns_of_term(pair)))
                yield lead | {"pair": pair, "columns": columns, "contrast": contrast}

    def _cells(self, summary: Summary) -> Iterator[dict[str, Any]]:
        for cell in self.cells:
            of_cell = {name: cell[name] for name in ("visible", "cap_factor", "sink_weight")}
            of_all = {"rotation": self.rotation, "not_split": self.not_split}
            pairs = [
                {"pair": pair, "columns": self.columns_of_term(pair), "contrast": contrast}
                for pair, contrast in enumerate(cell["contrasts"].tolist())
            ]
            yield _named(cell, summary) | of_cell | of_all | {"pairs": pairs}

    def arrays(self) -> dict[str, np.ndarray]:
        """The numbers of all cells by name, `[cells]` each, NaN for none; `contrasts` `[cells, terms]`."""
        numbers = {
            _ARRAYS.get(name, f"{name}s"): np.array([cell[name] for cell in self.cells], dtype=np.float64)
            for name in CELL
        }
        places = {"head_places": "head", "cell_queries": "query", "cell_keys": "key"}
        named = {array: np.array([cell[name] for cell in self.cells], dtype=int) for array, name in places.items()}
        return named | numbers | {"contrasts": np.array([cell["contrasts"] for cell in self.cells])}

    def columns_of_term(self, pair: int) -> list[int]:
        """The columns of q and k of a term of the dot product: two for a pair, or one."""
        return [int(of[pair]) for of in self.columns if of[pair] >= 0]

    @property
    def rotation(self) -> str | None:
        """The columns of q and k that rotary positions turn together: "halves" (i, i + half) ...; None if not known."""
        return None if self.turning is None else self.turning.layout or None

    @property
    def not_split(self) -> str | None:
        """Why scores aren't split into content and position; None where they are."""
        if any(cell["content"] is not None for cell in self.cells):
            return None
        if self.turning is None:
            return "there are no rotary positions"
        return self.turning.unknown or "this layer has no rotary positions and no bias"

    @property
    def footnote(self) -> str:
        """The caption below explained scores, and why content and position may be missing."""
        if not self.cells:
            return ""
        terms = "columns" if self.rotation is None else "pairs of columns that rotary positions turn, 0 the fastest"
        of_score = "a score's part, less its mean over the keys that the query sees"
        if self.not_split:
            return f"terms: {of_score}, by {terms}\nnot split into content and position: {self.not_split}"
        split = "content: of the words; position: of their distance; █ for the key, ░ against it"
        return f"{split}\npairs: {of_score}, by {terms}"


def _named(cell: dict[str, Any], summary: Summary) -> dict[str, Any]:
    query, key = summary.queries[cell["query"]], summary.keys[cell["key"]]
    place = {"layer": summary.place.layer, "head": summary.place.heads[cell["head"]]}
    place |= {"query": cell["query"], "query_token": query.text, "key": cell["key"], "key_token": key.text}
    return place | {name: cell[name] for name in CELL}


class ExplainedKeys:
    """Makes `Why` of a call: the `count` heaviest keys of rows, or of `keys`; InputError without softmax, q and k."""

    def __init__(self, count: int, *, rows: Sequence[int] | None = None, keys: Sequence[int] | None = None) -> None:
        self.count, self.rows, self.keys = count, rows, keys

    def wanted(self, call: Call) -> Wanted:
        """An empty request: it reads bands."""
        return Wanted()

    def part(self, call: Call, stats: RowStats) -> Why:
        """The explained scores of all picked rows and heads, as `Why`; InputError without q and k."""
        if not isinstance(call, AttentionCall):
            raise InputError(
                f"layer {call.place.layer} shows its weights but not its q and k",
                "attn why needs both; choose other layers with --layer",
            )
        if not call.rule.softmax:
            raise InputError("weights without a softmax are the scores themselves", "attn why explains a softmax")
        turning = None if call.ingredients.turning is None else call.ingredients.turning()
        rows, cells = RowPlaces(self.rows, call.n), list[dict[str, Any]]()
        for band in call.bands(rows=self.rows, want_scores=True, in_parts=True):
            fit = rows.of(band)
            if fit is None or band.first == band.last:
                continue
            inside = range(band.stop - band.start)[fit.inside] if isinstance(fit.inside, slice) else fit.inside
            for at in range(len(band.weights)):
                for row in inside:
                    cells += self._explained(call, turning, band, at, row)
        cells.sort(key=lambda cell: (cell["head"], cell["query"]))
        return Why(tuple(cells), columns_of(turning, int(call.q.shape[-1])), turning)

    def _explained(
        self, call: AttentionCall, turning: Turning | None, band: Band, at: int, row: int
    ) -> Iterator[dict[str, Any]]:
        """The cells of one row of a band, of its head number `at`."""
        head, query, rule = range(call.h)[band.heads][at], band.start + row, call.rule
        first, last = band.first, band.last
        weights, scores = to_numpy(band.weights[at, row]), to_numpy(band.raw_scores[at, row])  # type: ignore[index]
        visible = scores > lowest_of(scores)
        if not visible.any():
            return
        bias = rule.bias_of(query, query + 1, first, last)
        if bias is not None:
            numbers = to_numpy(at_least_float32(bias))
            numbers = numbers.reshape((1,) * (3 - numbers.ndim) + numbers.shape)  # [h or 1, 1, c or 1]
            bias = numbers[head if numbers.shape[0] > 1 else 0, 0]
        own = call.q[head, query], call.k[head * call.k.shape[0] // call.h, first:last]
        q, k = (to_numpy(at_least_float32(x)) for x in own)
        terms = row_terms(
            q, k, visible, rule.scale,
            softcap=rule.softcap, bias=bias, turning=_of_keys(turning, first, last),
        )  # fmt: skip
        of_row = {"head": head, "query": query, "mean_score": terms.mean_score, "visible": int(visible.sum())}
        sink = None if rule.sink is None else float(1 - weights.sum())
        for key in self._picked(weights, visible, first):
            of_key = {"key": first + key, "weight": float(weights[key]), "sink_weight": sink}
            yield of_row | of_key | _numbers(terms, key)

    def _picked(self, weights: np.ndarray, visible: np.ndarray, first: int) -> list[int]:
        """The keys to explain, counted from `first`: those that were picked and are visible, or the heaviest ones."""
        if self.keys is not None:
            places = [key - first for key in self.keys]
            return [place for place in places if 0 <= place < len(weights) and visible[place]]
        # a masked key never stands before a visible one
        _, order = heaviest(np.where(visible, weights, -1.0), min(self.count, int(visible.sum())))
        return [int(place) for place in order]


def _of_keys(turning: Turning | None, first: int, last: int) -> Turning | None:
    if turning is None or not turning.first:
        return turning
    cos, sin = to_numpy(turning.cos)[first:last], to_numpy(turning.sin)[first:last]
    return Turning(turning.first, turning.second, cos, sin, turning.layout)


def _numbers(terms: RowTerms, key: int) -> dict[str, Any]:
    """The numbers of one key of a row."""
    named = {
        "score": terms.scores, "content": terms.content, "position": terms.position, "bias": terms.bias,
        "cap_factor": terms.cap_factor, "rank": terms.ranks, "content_rank": terms.content_ranks,
        "distance_rank": terms.distance_ranks,
    }  # fmt: skip
    numbers = {name: None if values is None else values[key].item() for name, values in named.items()}
    return numbers | {"contrasts": terms.contrasts[key]}
