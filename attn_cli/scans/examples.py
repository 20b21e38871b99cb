"""The strongest cells of every head, for each kind: of a document the strongest one alone, ties by its number."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from attn_cli.scans.batch_targets import PLACED, BatchTargets
from attn_cli.sources.corpora import Document
from attn_cli.summaries.reducers.kinds import DELIMITER, DUPLICATE, EVEN, FIRST, INDUCTION, KINDS, WINDOW
from attn_cli.summaries.reducers.kinds.targets import REACH

ANY = "any"  # no kind: the strongest cells on keys at which no sink is expected
EXAMPLE_KINDS = (ANY, *(kind.name for kind in KINDS if kind is not EVEN))
MOST = 5  # examples of a head and kind
_WHOLE = 300  # characters of an excerpt that holds query and key
_AROUND = 60


class Excerpt(NamedTuple):
    """An example as it is read.

    file, record  where the document stands
    whole         whether the text is all that the model read
    first, last   the characters of the record's text from and to which the model read
    text          what the model read, of a long text what is around query and key, or around the query alone where they
                  are far apart
    query_token, key_token  the tokens, as they stand in the text; their names where they stand for none
    query_start, query_end, key_start, key_end  their characters in `text`; -1 where they are not in it
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
    """For each of h heads, each of EXAMPLE_KINDS and up to 5 ranks, `[h, kinds, 5]` each; weight 0 where there is none.

    document, piece  numbers of the document, and of its piece where it was cut
    query, key       numbers of tokens in the piece
    excerpt          objects, None until they are filled in
    """

    weight: np.ndarray
    document: np.ndarray
    piece: np.ndarray
    query: np.ndarray
    key: np.ndarray
    excerpt: np.ndarray

    @classmethod
    def none(cls, heads: int) -> "Examples":
        """No examples of so many heads."""
        shape = (heads, len(EXAMPLE_KINDS), MOST)
        document, piece, query, key = (np.full(shape, -1) for _ in range(4))
        return cls(np.zeros(shape, np.float32), document, piece, query, key, np.full(shape, None, object))

    def __or__(self, other: "Examples") -> "Examples":
        """The strongest of both."""
        mine, theirs = vars(self), vars(other)
        both = {name: np.concatenate([mine[name], theirs[name]], axis=-1) for name in mine}
        return Examples(**both).strongest()

    def strongest(self) -> "Examples":
        """The first 5, by weight, then document, piece and query."""
        keys = (self.query, self.piece, self.document, -self.weight)
        order = np.lexsort(keys, axis=-1)[..., :MOST]
        return Examples(**{name: np.take_along_axis(x, order, axis=-1) for name, x in vars(self).items()})

    def with_excerpts(self, excerpts: np.ndarray) -> "Examples":
        """With these excerpts."""
        return replace(self, excerpt=excerpts)


class Numbered(NamedTuple):
    """The numbers of the documents and pieces of a batch, `[B]` each."""

    document: np.ndarray
    piece: np.ndarray


def examples_of(top: np.ndarray, keys: np.ndarray, targets: BatchTargets, numbered: Numbered) -> Examples:
    """The examples of a batch: its rows' largest weights `[h, R]` on `keys` `[h, R]`, -1 for none."""
    rows = targets.rows
    at = np.maximum(keys, 0)
    weight = np.where((keys >= 0) & rows.real, top, 0.0)
    order = np.lexsort((numbered.piece, numbered.document))  # ties go to the first document
    found = [_best(np.where(mask, weight, 0.0), at, targets, order) for mask in _memberships(at, targets)]
    weights, queries, places, texts = (np.stack(x, axis=1) for x in zip(*found, strict=True))  # [h, kinds, E]
    some = weights > 0
    numbers = (numbered.document[texts], numbered.piece[texts], queries, places)
    document, piece, query, key = (np.where(some, x, -1) for x in numbers)
    empty = np.full(weights.shape, None, object)
    examples = Examples(np.where(some, weights, 0).astype(np.float32), document, piece, query, key, empty)
    none = Examples.none(len(top))
    return examples if weights.shape[-1] == MOST else none | examples


def _memberships(keys: np.ndarray, targets: BatchTargets) -> list[np.ndarray]:
    """Whether each row's key is a target, by kind in the order of EXAMPLE_KINDS, `[h, R]` each."""
    rows = targets.rows
    own = np.arange(len(rows.real))
    back, on_sink, names = own - keys, targets.sinks[keys], rows.names
    masks: dict[Any, np.ndarray] = {kind: back == kind.back for kind in PLACED}
    masks[ANY] = ~on_sink
    masks[FIRST] = keys == rows.begin
    masks[DELIMITER] = rows.delimiters[keys]
    masks[WINDOW] = (back <= REACH) & (back >= -targets.ahead) & ~on_sink
    masks[DUPLICATE] = (names[keys] == names) & (back != 0)
    masks[INDUCTION] = (names[np.maximum(keys - 1, 0)] == names) & (back >= 0) & (keys > rows.begin)
    return [masks[ANY], *(masks[kind] for kind in KINDS if kind is not EVEN)]


def _best(
    weight: np.ndarray, keys: np.ndarray, targets: BatchTargets, order: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Weight, query, key and text of the best rows of the best texts, `[h, E]` each."""
    rows = targets.rows
    of_texts = rows.by_text(weight)[:, order]  # [h, B, n], by document
    query = of_texts.argmax(axis=-1)
    best = np.take_along_axis(of_texts, query[..., None], axis=-1)[..., 0]  # [h, B]
    ranks = np.argsort(-best, axis=-1, kind="stable")[:, :MOST]
    texts = order[ranks]
    queries = np.take_along_axis(query, ranks, axis=-1)
    row = texts * rows.length + queries
    places = np.take_along_axis(keys, row, axis=-1) - texts * rows.length
    return np.take_along_axis(best, ranks, axis=-1), queries, places, texts


def excerpt_of(document: Document, query: tuple[int, int, str], key: tuple[int, int, str]) -> Excerpt:
    """The text around a query and a key, each with its characters in the document's text and its name.

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
