"""The keys that a query attends to most, or some that were picked, with what each one's score is made of."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attn_cli.arrays import at_least_float32, to_numpy
from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call
from attn_cli.errors import InputError
from attn_cli.fields import made
from attn_cli.kernel.bands.band import Band
from attn_cli.kernel.bands.masked_cells import lowest_of
from attn_cli.kernel.bands.picked_rows import RowPlaces
from attn_cli.kernel.definition.positions import Turning
from attn_cli.kernel.lessons.why import Columns, RowTerms, columns_of, row_terms
from attn_cli.kernel.stats.topk import heaviest
from attn_cli.summaries.reduce import Part, Summary
from attn_cli.summaries.reducers.explained_cell import CELL, EXPLAINED, ExplainedCell


@dataclass(frozen=True, eq=False)
class Why(Part):
    """Scores explained, each of a query and key (a cell), in the order of heads, queries and weights.

    turning  how rotary positions turned these pairs; None where nothing says so
    """

    name: ClassVar[str] = "why"

    cells: tuple[ExplainedCell, ...]
    columns: Columns
    turning: Turning | None

    def terms(self, cell: ExplainedCell) -> list[dict[str, Any]]:
        """The terms of the scaled dot product of a query and key, each less its mean over the visible keys.

        `pair` counts from 0, pairs turned fastest first, then single columns; `columns` is "3+35" or "70".
        """
        numbers = zip(self.column_names, cell.contrasts.tolist(), strict=True)
        return [
            {"pair": pair, "columns": columns, "contrast": contrast} for pair, (columns, contrast) in enumerate(numbers)
        ]

    def records(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One row per explained query and key and term of its dot product: layer, head, tokens, scores, the term."""
        for cell in self.cells:
            lead = made(CELL, {"cell": cell, "summary": summary})
            yield from (lead | term for term in self.terms(cell))

    def documents(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One JSON object per explained query and key, with `pairs`: the terms of its dot product."""
        return (made(EXPLAINED, {"part": self, "cell": cell, "summary": summary}) for cell in self.cells)

    def arrays(self) -> dict[str, np.ndarray]:
        """The numbers of all cells by name, `[cells]` each, NaN for none; `contrasts` `[cells, terms]`."""
        names = ("weight", "score", "mean_score", "content", "position", "bias", "rank", "content_rank",
                 "distance_rank")  # fmt: skip
        numbers = {
            "biases" if name == "bias" else f"{name}s": np.array(
                [getattr(cell, name) for cell in self.cells], dtype=np.float64
            )
            for name in names
        }
        places = {
            "head_places": np.array([cell.head for cell in self.cells]),
            "cell_queries": np.array([cell.query for cell in self.cells]),
            "cell_keys": np.array([cell.key for cell in self.cells]),
        }
        return places | numbers | {"contrasts": np.array([cell.contrasts for cell in self.cells])}

    @property
    def column_names(self) -> list[str]:
        """For every term of the dot product its columns of q and k: "3+35" for a pair, "70" for a single column."""
        return [
            str(first) if second < 0 else f"{first}+{second}"
            for first, second in zip(self.columns.first.tolist(), self.columns.second.tolist(), strict=True)
        ]

    @property
    def rotation(self) -> str | None:
        """The columns of q and k that rotary positions turn together: "halves" (i, i + half) ...; None if not known."""
        return None if self.turning is None else self.turning.layout or None

    @property
    def not_split(self) -> str | None:
        """Why scores aren't split into content and position; None where they are."""
        if any(cell.content is not None for cell in self.cells):
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


class ExplainedKeys:
    """Makes `Why` of a call: the `count` heaviest keys of rows, or of `keys`; InputError without softmax, q and k."""

    needs_scores = True
    whole_heads = False

    def __init__(self, count: int, *, rows: Sequence[int] | None = None, keys: Sequence[int] | None = None) -> None:
        self.count, self.rows, self.keys = count, rows, keys

    def start(self, call: Call) -> None:
        """Keep the call, and how rotary positions turned its queries and keys; InputError without q and k."""
        if not isinstance(call, AttentionCall):
            raise InputError(
                f"layer {call.place.layer} shows its weights but not its q and k",
                "attn why needs both; choose other layers with --layer",
            )
        if not call.rule.softmax:
            raise InputError("weights without a softmax are the scores themselves", "attn why explains a softmax")
        self.call, self.places = call, RowPlaces(self.rows, call.n)
        self.turning = None if call.ingredients.turning is None else call.ingredients.turning()
        self.cells: list[tuple[int, int, list[ExplainedCell]]] = []

    def add(self, band: Band) -> None:
        """Explain the picked rows of a band (some adjacent query rows), head by head."""
        fit = self.places.of(band)
        if fit is None or band.first == band.last:
            return
        inside = range(band.stop - band.start)[fit.inside] if isinstance(fit.inside, slice) else fit.inside
        heads = range(self.call.h)[band.heads]
        for at, head in enumerate(heads):
            k = to_numpy(at_least_float32(self.call.k[head * self.call.k.shape[0] // self.call.h]))
            for row in inside:
                weights = to_numpy(band.weights[at, row])
                scores = to_numpy(band.raw_scores[at, row])  # type: ignore[index]
                cells = self._explained(head, band.start + row, k[band.first : band.last], weights, scores, band.first)
                self.cells.append((head, band.start + row, cells))

    def _explained(
        self, head: int, row: int, k: np.ndarray, weights: np.ndarray, scores: np.ndarray, first: int
    ) -> list[ExplainedCell]:
        """The cells of one row; keys k `[c, d]`, weights and scores `[c]` are those from key `first` on."""
        visible = scores > lowest_of(scores)
        if not visible.any():
            return []
        call, rule, last = self.call, self.call.rule, first + len(k)
        bias = rule.bias_of(row, row + 1, first, last)
        if bias is not None:
            numbers = to_numpy(at_least_float32(bias))
            numbers = numbers.reshape((1,) * (3 - numbers.ndim) + numbers.shape)  # [h or 1, 1, c or 1]
            bias = numbers[head if numbers.shape[0] > 1 else 0, 0]
        terms = row_terms(
            to_numpy(at_least_float32(call.q[head, row])), k, visible, rule.scale,
            softcap=rule.softcap, bias=bias, turning=_of_keys(self.turning, first, last),
        )  # fmt: skip
        picked = self._picked(weights, visible, first)
        sink = None if rule.sink is None else float(1 - weights.sum())
        return [_cell(terms, head, row, key, first, weights, int(visible.sum()), sink) for key in picked]

    def _picked(self, weights: np.ndarray, visible: np.ndarray, first: int) -> list[int]:
        """The keys to explain, counted from `first`: those that were picked and are visible, or the heaviest ones."""
        if self.keys is not None:
            places = [key - first for key in self.keys]
            return [place for place in places if 0 <= place < len(weights) and visible[place]]
        # a masked key never stands before a visible one
        _, order = heaviest(np.where(visible, weights, -1.0), min(self.count, int(visible.sum())))
        return [int(place) for place in order]

    def result(self) -> Why:
        """The explained scores of all picked rows and heads, as `Why`."""
        cells = [cell for _, _, row in sorted(self.cells, key=lambda entry: entry[:2]) for cell in row]
        return Why(tuple(cells), columns_of(self.turning, int(self.call.q.shape[-1])), self.turning)


def _of_keys(turning: Turning | None, first: int, last: int) -> Turning | None:
    if turning is None or not turning.first:
        return turning
    cos, sin = to_numpy(turning.cos)[first:last], to_numpy(turning.sin)[first:last]
    return Turning(turning.first, turning.second, cos, sin, turning.layout)


def _cell(
    terms: RowTerms, head: int, row: int, key: int, first: int, weights: np.ndarray, visible: int, sink: float | None
) -> ExplainedCell:
    """One key of a row's terms, counted from key `first`."""

    def at(values: np.ndarray | None) -> float | None:
        return None if values is None else float(values[key])

    return ExplainedCell(
        head,
        row,
        first + key,
        float(weights[key]),
        float(terms.scores[key]),
        terms.mean_score,
        visible,
        at(terms.content),
        at(terms.position),
        at(terms.bias),
        at(terms.cap_factor),
        int(terms.ranks[key]),
        None if terms.content_ranks is None else int(terms.content_ranks[key]),
        None if terms.distance_ranks is None else int(terms.distance_ranks[key]),
        terms.contrasts[key],
        sink,
    )
