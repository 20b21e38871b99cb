"""The target keys of every kind for all texts of a batch, and what each row counts: made once, for all layers.

What a kind's targets are, and which rows count, is as in `attn_cli.summaries.reducers.kinds`; here it is put together
for all texts of a batch side by side.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from attn_cli.kernel.definition.mask import Intervals
from attn_cli.kernel.stats.wanted import ColumnSums, TopK, Wanted
from attn_cli.scans.numbers.ranges import OWN, POSITION_EDGES, POSITIONS, STEP_EDGES
from attn_cli.scans.read.token_rows import TokenRows
from attn_cli.summaries.reducers.heads.alignment import Alignment
from attn_cli.summaries.reducers.heads.head_statistics import HeadMeans
from attn_cli.summaries.reducers.kinds import head_kinds as kinds
from attn_cli.summaries.reducers.kinds.control import ControlRows, control_keys, offset_of
from attn_cli.summaries.reducers.kinds.counted_rows import CountedRows, control_factors, counted_rows, have_choice
from attn_cli.summaries.reducers.kinds.head_kinds import DUPLICATE, INDUCTION, Kind
from attn_cli.summaries.reducers.kinds.targets import REACH, compact, content_lists, placed_keys, window_keys
from attn_cli.summaries.sight import IntervalSight

PLACED = tuple(sorted(kinds.PLACED, key=lambda kind: -(kind.back or 0)))  # in the order of their stretches
PLACED_COLUMNS = slice(OWN - (PLACED[0].back or 0), OWN - (PLACED[-1].back or 0) + 1)  # one place each, none left out
CONTENT_KINDS = (INDUCTION, DUPLICATE)
LARGEST = TopK(1, scores=False)


@dataclass(frozen=True, eq=False)
class ContentTargets:
    """The targets of a kind whose targets are repeats, and the rows that count for it.

    keys     the targets `[R, c]`, -1 after the last
    on_sinks those of them at which sinks are expected
    drawn    keys as far away that are no targets `[R, 16]`
    rows     which rows count
    seen     how many targets each row sees `[R]`
    control  targets seen / drawn keys seen `[R]`, 0 where no key was drawn
    """

    keys: np.ndarray
    on_sinks: np.ndarray
    drawn: np.ndarray
    rows: CountedRows
    seen: np.ndarray
    control: np.ndarray


class BatchTargets:
    """The targets of the rows of a batch that see the keys of `span`.

    seed  of the control's draws
    """

    def __init__(self, rows: TokenRows, span: Intervals, *, learned_sink: bool, seed: int) -> None:
        self.rows, self.learned_sink, self.seed = rows, learned_sink, seed
        self.sight = IntervalSight(span, len(rows.real))
        self.seen = np.where(rows.real, self.sight.count, 0).astype(np.float64)  # [R]
        after = np.maximum(np.arange(len(rows.real)) + 1, self.sight.first)  # each row's first key that is ahead
        self.is_causal = bool((self.sight.last <= after).all())
        self.live = self.seen > 0
        self.judged = have_choice(self.seen)
        self.even = np.divide(1.0, self.seen, out=np.zeros_like(self.seen), where=self.live)

    @cached_property
    def sinks(self) -> np.ndarray:
        """Booleans `[R]`, True at expected sinks: a text's first key, special tokens if keys ahead are seen."""
        return self.rows.real & (self.rows.place == 0) if self.is_causal else self.rows.special

    @cached_property
    def stretches(self) -> slice:
        """The stretches of keys, of all in `STEP_EDGES`, that some row may see."""
        return slice(0, OWN + 1 if self.is_causal else len(STEP_EDGES) - 1)

    @cached_property
    def wanted(self) -> Wanted:
        """The request for every row: for kinds first key 0, then the lists of keys; and what head statistics need."""
        first = np.where(self.rows.real, self.rows.begin, -1)[:, None]
        lists = [x for kind in CONTENT_KINDS for x in self._lists(kind)]
        of_kinds = Wanted(
            moments=("weight_sum", "entropy_nats"),
            key_sets=(first, *lists, self.window_sinks),
            vectors=tuple(np.stack([self.rows.delimiters, ~self.sinks]).astype(np.float32)),
            column_sums=(ColumnSums(),),
            tops=(LARGEST,),
            distance_edges=(STEP_EDGES[: self.stretches.stop + 1],),
        )
        return of_kinds | self.means.wanted()

    @cached_property
    def means(self) -> HeadMeans:
        """The means that head statistics are; rows without a key to see are known by the mask."""
        rows = self.rows
        made = HeadMeans.of([
            Alignment(rows.length, rows.length, tokens, 0, same_tokens=True, is_causal=self.is_causal,
                      has_sink=self.learned_sink, hides=False)
            for tokens in rows.tokens
        ])  # fmt: skip
        begin, real = rows.begin[:, None], rows.real[:, None]
        keys = {cell: np.where((of_text >= 0) & real, of_text + begin, -1) for cell, of_text in made.keys.items()}
        return replace(made, keys=keys)

    def _lists(self, kind: Kind) -> tuple[np.ndarray, ...]:
        targets = self.content[kind]
        return targets.keys, targets.on_sinks, targets.drawn

    @cached_property
    def _repeats(self) -> dict[Kind, np.ndarray]:
        return content_lists(self.rows.names, is_causal=self.is_causal)

    @cached_property
    def content(self) -> dict[Kind, ContentTargets]:
        """The targets that are repeats, by kind."""
        return {kind: self._content(kind) for kind in CONTENT_KINDS}

    def _content(self, kind: Kind) -> ContentTargets:
        keys = self._repeats[kind]
        sees = self.sight.sees(keys)
        on_sinks = sees & self.sinks[np.maximum(keys, 0)]
        seen = sees.sum(axis=1).astype(np.float64)
        rows = counted_rows(seen, on_sinks.sum(axis=1), self.seen)
        drawn = control_keys(kind, keys, self._control_rows(keys), self.seed)
        control = control_factors(seen, self.sight.sees(drawn).sum(axis=1), rows.counted)
        sunk_keys = compact(np.where(on_sinks, keys, -1)) if on_sinks.any() else np.full((len(keys), 1), -1)
        return ContentTargets(keys, sunk_keys, drawn, rows, seen, control)

    def _control_rows(self, keys: np.ndarray) -> ControlRows:
        """The keys and distances from which the controls of rows with these targets are drawn."""
        rows = self.rows
        row, column = np.nonzero(keys >= 0)
        bounds = np.searchsorted(row // rows.length, np.arange(rows.count + 1))  # of each text among all distances
        first, total, stop, offsets = (
            np.repeat(of_text, rows.length)
            for of_text in (
                bounds[:-1],
                np.diff(bounds),
                np.arange(rows.count) * rows.length + rows.lengths,
                self._offsets,
            )
        )
        distances = row - keys[row, column]
        return ControlRows(rows.begin, stop, rows.names, self.sinks, offsets, distances, first, total)

    @cached_property
    def _offsets(self) -> np.ndarray:
        """By which the control's draws of each text are moved `[B]`."""
        return np.array([offset_of(encoded.ids) for encoded in self.rows.encoded])

    @cached_property
    def ahead(self) -> int:
        """The number of places that the window reaches beyond the query."""
        return 0 if self.is_causal else REACH

    @cached_property
    def _window(self) -> np.ndarray:
        return window_keys(len(self.rows.real), is_causal=self.is_causal)

    @cached_property
    def window_seen(self) -> np.ndarray:
        """The number of keys of the window that each row sees `[R]`."""
        return self.sight.sees(self._window).sum(axis=1).astype(np.float64)

    @cached_property
    def window_sinks(self) -> np.ndarray:
        """The keys of the window at which sinks are expected `[R, c]`."""
        keys = self._window
        sunk = self.sight.sees(keys) & self.sinks[np.clip(keys, 0, len(self.sinks) - 1)]
        return compact(np.where(sunk, keys, -1)) if sunk.any() else np.full((len(keys), 1), -1)

    @cached_property
    def placed_seen(self) -> np.ndarray:
        """Booleans `[R, 10]`, True where a row sees the target of each of `PLACED`."""
        return self.sight.sees(self._placed)

    @cached_property
    def placed_sinks(self) -> np.ndarray:
        """Booleans `[R, 10]`, True where a sink is expected at that target."""
        return self.placed_seen & self.sinks[np.clip(self._placed, 0, len(self.sinks) - 1)]

    @cached_property
    def _placed(self) -> np.ndarray:
        return placed_keys(PLACED, len(self.rows.real))

    @cached_property
    def delimiters_seen(self) -> np.ndarray:
        """The number of delimiters that each row sees `[R]`."""
        return self.sight.along_rows(self.rows.delimiters.astype(np.float64))

    @cached_property
    def even_steps(self) -> np.ndarray:
        """The weight that uniform attention gives each stretch, summed over the rows of each text `[B, stretches]`."""
        own = np.arange(len(self.rows.real))[:, None]
        first, last = self.sight.first[:, None], self.sight.last[:, None]
        edges = own + STEP_EDGES[: self.stretches.stop + 1].astype(np.int64)
        inside = np.clip(edges[:, 1:], first, last) - np.clip(edges[:, :-1], first, last)
        return (inside * self.even[:, None]).reshape(self.rows.count, self.rows.length, -1).sum(axis=1)

    @cached_property
    def even_received(self) -> np.ndarray:
        """The weight that uniform attention gives each range of places, by text `[B, ranges]`."""
        return self.rows.by_text(self.sight.along_columns(self.even)) @ self.in_ranges

    @cached_property
    def in_ranges(self) -> np.ndarray:
        """Which places of a text are in each range `[n, ranges]`."""
        ranges = np.searchsorted(POSITION_EDGES, np.arange(self.rows.length), side="right") - 1
        return (ranges[:, None] == np.arange(POSITIONS)).astype(np.float64)
