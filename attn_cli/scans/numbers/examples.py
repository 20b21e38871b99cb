"""The strongest cells of every head, for each kind: of a document the strongest one alone, ties by its number."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from attn_cli.scans.numbers.batch_targets import BatchTargets
from attn_cli.sources.corpora import Document
from attn_cli.summaries.reducers.kinds.targets import DELIMITER, KINDS, UNIFORM, WINDOW


def strongest_rows(
    weights: np.ndarray, bits: np.ndarray, least: np.ndarray, order: np.ndarray, most: int
) -> np.ndarray:
    """The rows with the largest weights of each head and kind, at most one of a text: `[h, kinds, most]`, then -1.

    bits   the kinds of each row `[h, R]`
    least  weaker ones are left out `[h, kinds]`
    order  the texts: of equally strong rows the first text's comes first
    """
    (heads, kinds), texts = least.shape, len(order)
    n = weights.shape[1] // texts
    weights, bits = (x.reshape(heads, texts, n)[:, order] for x in (weights, bits))
    rows = np.full((heads, kinds, most), -1)
    for kind in range(kinds):
        own = np.where(bits >> kind & 1 > 0, weights, 0)
        at = own.argmax(axis=-1)  # [h, texts]
        best = np.take_along_axis(own, at[..., None], -1)[..., 0]
        best = np.where(best >= least[:, kind, None], best, 0)
        first = np.argsort(-best, axis=-1, kind="stable")[:, :most]
        strongest, at = (np.take_along_axis(x, first, -1) for x in (best, at))
        rows[:, kind, : first.shape[1]] = np.where(strongest > 0, order[first] * n + at, -1)
    return rows


ANY = "any"  # no kind: the strongest cells on keys at which no sink is expected
EXAMPLE_KINDS = (ANY, *(kind.name for kind in KINDS if kind is not UNIFORM))
MOST = 5  # examples of a head and kind
_STEPS = 2**17  # of a weight of 1: coarse enough that the same text in two batches has the same weight
_WHOLE = 300  # characters of an excerpt that holds query and key
_AROUND = 60


class Excerpt(NamedTuple):
    """An example of what a head attends to, a query and a key with a large weight, with the text to show it in.

    file, record  the document's file, and its record there, from 1
    whole         whether `text` is all that the model read
    first, last   characters first:last of the record's text are what the model read
    text          what the model read; of a long text the part around query and key, or the query alone if they are far
    query_token, key_token  as they stand in the text; their names where they stand for none
    query_start, query_end, key_start, key_end  characters start:end of `text`; -1 where they are not in it
    """

    file: str
    record: int
    whole: bool
    first: int
    last: int
    text: str
    query_token: str
    key_token: str
    query_start: int
    query_end: int
    key_start: int
    key_end: int


@dataclass(frozen=True, eq=False)
class Examples:
    """The strongest examples of h heads, `[h, kinds, 5]`, strongest first, kinds as in `EXAMPLE_KINDS`.

    Weight is 0 where there is none; `document`, `piece`, `query` and `key` count from 0; excerpts come last.
    """

    weight: np.ndarray
    document: np.ndarray
    piece: np.ndarray
    query: np.ndarray
    key: np.ndarray
    excerpt: np.ndarray

    @classmethod
    def none(cls, heads: int) -> "Examples":
        """Room for examples (queries and keys with large weights) of so many heads, all of weight 0: there are none."""
        shape = (heads, len(EXAMPLE_KINDS), MOST)
        document, piece, query, key = (np.full(shape, -1) for _ in range(4))
        return cls(np.zeros(shape, np.float32), document, piece, query, key, np.full(shape, None, object))

    def __or__(self, other: "Examples") -> "Examples":
        mine, theirs = vars(self), vars(other)
        both = {name: np.concatenate([mine[name], theirs[name]], axis=-1) for name in mine}
        return Examples(**both).strongest()

    def strongest(self) -> "Examples":
        """The 5 examples of largest weight for each head and kind of head; equal ones by document, piece and query."""
        keys = (self.query, self.piece, self.document, -self.weight)
        order = np.lexsort(keys, axis=-1)[..., :MOST]
        return Examples(**{name: np.take_along_axis(x, order, axis=-1) for name, x in vars(self).items()})

    def least(self) -> np.ndarray:
        """The least of the 5 weights for each head and kind of head `[h, kinds]`, for others to reach; 0 if fewer."""
        return self.weight[..., -1]

    def with_excerpts(self, excerpts: np.ndarray) -> "Examples":
        """The same examples with `excerpts` `[h, kinds, 5]` as the texts in which they are shown."""
        return replace(self, excerpt=excerpts)


def examples_of(
    top: np.ndarray, keys: np.ndarray, targets: BatchTargets, numbers: tuple[np.ndarray, np.ndarray], least: np.ndarray
) -> Examples:
    """The strongest examples in a batch of texts, up to 5 for each head and kind, at most one of a text.

    top      the largest weight of each row `[h, R]`
    keys     the keys of these weights `[h, R]`, -1 for none
    numbers  each text's document in the corpus, and its piece in that, from 0 `[texts]`
    least    the smallest weight that is still wanted `[h, kinds]`
    """
    weight = np.where((keys >= 0) & targets.rows.real, np.rint(top * _STEPS) / _STEPS, 0).astype(np.float32)
    bits = _membership_bits(np.maximum(keys, 0), targets)
    document, piece = numbers
    texts = np.lexsort((piece, document))
    found = strongest_rows(weight, bits, least, texts, MOST)
    heads, kinds, ranks = np.nonzero(found >= 0)
    rows, examples = found[heads, kinds, ranks], Examples.none(len(top))
    text, query = np.divmod(rows, targets.rows.length)
    for cells, values in (
        (examples.weight, weight[heads, rows]),
        (examples.document, document[text]),
        (examples.piece, piece[text]),
        (examples.query, query),
        (examples.key, keys[heads, rows] - text * targets.rows.length),
    ):
        cells[heads, kinds, ranks] = values
    return examples


_BIT = {name: np.uint32(1 << at) for at, name in enumerate(EXAMPLE_KINDS)}


def _membership_bits(keys: np.ndarray, targets: BatchTargets) -> np.ndarray:
    """Of which kinds each row's key is a target `[h, R]`, one bit each in the order of EXAMPLE_KINDS."""
    off_sinks, lists = ~targets.sinks[keys], targets.by_kind.lists
    bits = np.where(off_sinks, _BIT[ANY], np.uint32(0))
    for kind in KINDS:
        if kind is DELIMITER:
            bits |= np.where(targets.rows.delimiters[keys], _BIT[kind.name], np.uint32(0))
        elif kind in lists:
            is_target = np.zeros(keys.shape, bool)
            for column in lists[kind].T:
                is_target |= keys == column
            bits |= np.where(is_target & off_sinks if kind is WINDOW else is_target, _BIT[kind.name], np.uint32(0))
    return bits


def excerpt_of(document: Document, query: tuple[int, int, str], key: tuple[int, int, str]) -> Excerpt:
    """The text around a query and a key, each given as (start, end, name) of its token in the document's text.

    >>> from attn_cli.sources.corpora import RecordPlace
    >>> excerpt_of(Document(0, RecordPlace("a.txt", 1), "the cat sat"), (8, 11, "sat"), (4, 7, "cat")).text
    'the cat sat'
    """
    text = document.text
    start, end = 0, len(text)
    if end > _WHOLE:
        places = [place for place in (query, key) if place[0] >= 0]
        start = max(0, min((first for first, _, _ in places), default=0) - _AROUND)
        end = min(len(text), max((last for _, last, _ in places), default=0) + _AROUND)
    if end - start > _WHOLE and query[0] >= 0:
        start, end = max(0, query[0] - _WHOLE // 2), min(len(text), query[1] + _WHOLE // 2)
    spans = []
    for first, last, _ in (query, key):
        inside = start <= first and last <= end
        spans += [first - start, last - start] if inside else [-1, -1]
    names = [text[first:last].strip() or name if first >= 0 else name for first, last, name in (query, key)]
    return Excerpt(
        document.origin.file, document.origin.record, (start, end) == (0, len(text)), document.start,
        document.start + len(text), text[start:end], names[0], names[1], spans[0], spans[1], spans[2], spans[3],
    )  # fmt: skip
