"""What is asked of the rows of a batch, and what their kinds' targets and factors are: made once, for all layers."""

from functools import cached_property

import numpy as np

from attn_cli.kernel.definition.mask import Intervals
from attn_cli.kernel.stats.wanted import ColumnSums, TopK, Wanted
from attn_cli.scans.numbers.ranges import OWN, POSITION_EDGES, POSITIONS, STEP_EDGES
from attn_cli.scans.read.token_rows import TokenRows
from attn_cli.summaries.reducers.heads import Rows as HeadRows
from attn_cli.summaries.reducers.heads import TextRows as HeadTextRows
from attn_cli.summaries.reducers.kinds.targets import RowFactors, Targets, TextRows, factors_of, hashed, targets_of_rows
from attn_cli.summaries.sight import Sight

LARGEST = TopK(1, scores=False)


class BatchTargets:
    """The target keys of each kind of head, for the R rows of a padded batch; `span` are those that each sees."""

    def __init__(self, rows: TokenRows, span: Intervals, *, learned_sink: bool, seed: int) -> None:
        self.rows, self.learned_sink, self.seed = rows, learned_sink, seed
        span = Intervals(span.first, np.where(rows.real, span.last, span.first))  # padding sees nothing
        self.sight = Sight(span, len(rows.real))
        seen = self.sight.count.astype(np.float64)  # [R]
        after = np.maximum(np.arange(len(rows.real)) + 1, self.sight.first)  # each row's first key that is ahead
        self.is_causal = bool((self.sight.last <= after).all())
        self.live = seen > 0
        self.even = np.divide(1.0, seen, out=np.zeros_like(seen), where=self.live)

    @cached_property
    def sinks(self) -> np.ndarray:
        """Booleans `[R]`, True at keys expected to be sinks, that is, to get much weight from most queries."""
        return self.rows.real & (self.rows.place == 0) if self.is_causal else self.rows.special

    @cached_property
    def edges(self) -> np.ndarray:
        """The edges of ranges of distances, query - key, that rows may see: causal ones see none below 0."""
        return STEP_EDGES[: OWN + 2] if self.is_causal else STEP_EDGES

    @cached_property
    def wanted(self) -> Wanted:
        """The request for the row statistics of all R rows that the kinds and statistics of heads are computed from."""
        others = Wanted(column_sums=(ColumnSums(),), tops=(LARGEST,), distance_edges=(self.edges,))
        return self.by_kind.wanted | others | self.asked.wanted()

    @cached_property
    def asked(self) -> HeadRows:
        """What the head statistics (entropy ...) of each text ask of its rows."""
        rows, n = self.rows, self.rows.length
        flags = (True, self.is_causal, self.learned_sink, True, False, False)
        made = HeadRows([HeadTextRows(n, n, tokens, *flags) for tokens in rows.tokens])
        begin, real = rows.begin[:, None], rows.real[:, None]
        made.keys = {rule: np.where((of >= 0) & real, of + begin, -1) for rule, of in made.keys.items()}
        return made

    @cached_property
    def by_kind(self) -> Targets:
        """The target keys that define each kind of head, for each of R rows, as row numbers `[R, c]`; -1 for none."""
        rows = self.rows
        first = np.arange(rows.count) * rows.length
        offsets = [hashed(encoded.ids) for encoded in rows.encoded]
        stop, offset = (np.repeat(of_text, rows.length) for of_text in (first + rows.lengths, offsets))
        texts = TextRows(rows.begin, stop, rows.names, self.sinks, offset, rows.delimiters)
        return targets_of_rows(texts, is_causal=self.is_causal, seed=self.seed)

    @cached_property
    def factors(self) -> RowFactors:
        """For each of K kinds of heads and R rows whether the row counts: arrays `[K, R]` as `RowFactors`."""
        return factors_of(self.by_kind, self.sight, learned_sink=self.learned_sink)

    @cached_property
    def even_steps(self) -> np.ndarray:
        """Uniform attention's weight by range of distances, query - key, summed over rows of B texts `[B, ranges]`."""
        own = np.arange(len(self.rows.real))[:, None]
        first, last = self.sight.first[:, None], self.sight.last[:, None]
        edges = own + self.edges.astype(np.int64)
        inside = np.clip(edges[:, 1:], first, last) - np.clip(edges[:, :-1], first, last)
        return (inside * self.even[:, None]).reshape(self.rows.count, self.rows.length, -1).sum(axis=1)

    @cached_property
    def even_received(self) -> np.ndarray:
        """The weight of uniform attention in each range of key positions, summed over rows of B texts `[B, ranges]`."""
        return self.rows.by_text(self.sight.along_columns(self.even)) @ self.in_ranges

    @cached_property
    def in_ranges(self) -> np.ndarray:
        """1 where one of the n positions of a text is in a range of key positions, else 0, `[n, ranges]` in float64."""
        ranges = np.searchsorted(POSITION_EDGES, np.arange(self.rows.length), side="right") - 1
        return (ranges[:, None] == np.arange(POSITIONS)).astype(np.float64)
