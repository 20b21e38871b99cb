"""The strongest cells of every head, for each kind: of a document the strongest one alone, ties by its number."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from attn_cli.scans.batch_targets import PLACED, BatchTargets
from attn_cli.scans.token_rows import TokenRows
from attn_cli.sources.corpora import Document
from attn_cli.summaries.reducers.kinds import DELIMITER, DUPLICATE, EVEN, FIRST, INDUCTION, KINDS, WINDOW
from attn_cli.summaries.reducers.kinds.targets import REACH

ANY = "any"  # no kind: the strongest cells on keys at which no sink is expected
EXAMPLE_KINDS = (ANY, *(kind.name for kind in KINDS if kind is not EVEN))
MOST = 5  # examples of a head and kind
_FEW = 32  # cells of a head that are ranked without looking for more to leave out
_TINY = 1e-30
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

    def least(self) -> np.ndarray:
        """The weight that another example needs to be among them `[h, kinds]`."""
        made: np.ndarray = self.weight[..., -1]
        return made

    def with_excerpts(self, excerpts: np.ndarray) -> "Examples":
        """With these excerpts."""
        return replace(self, excerpt=excerpts)


class Numbered(NamedTuple):
    """The numbers of the documents and pieces of a batch, `[B]` each."""

    document: np.ndarray
    piece: np.ndarray


def examples_of(
    top: np.ndarray, keys: np.ndarray, targets: BatchTargets, numbered: Numbered, least: np.ndarray
) -> Examples:
    """The examples of a batch: its rows' largest weights `[h, R]` on `keys` `[h, R]`, -1 for none.

    least  the weight that is needed to be among the strongest of all `[h, kinds]`
    """
    weight = np.where((keys >= 0) & targets.rows.real, top, 0).astype(np.float32)
    masks = _memberships(np.maximum(keys, 0), targets)
    strong = [_strong(weight, mask, least[:, kind], targets.rows) for kind, mask in enumerate(masks)]
    heads, rows = (np.concatenate(x) for x in zip(*map(np.nonzero, strong), strict=True))
    kinds = np.repeat(np.arange(len(masks)), [int(np.count_nonzero(each)) for each in strong])
    text, query = np.divmod(rows, targets.rows.length)
    cells = _Cells(heads * len(masks) + kinds, text, weight[heads, rows], numbered.document[text],
                   numbered.piece[text], query, keys[heads, rows] - text * targets.rows.length)  # fmt: skip
    return _ranked(cells, len(top))


def _strong(weight: np.ndarray, mask: np.ndarray, least: np.ndarray, rows: TokenRows) -> np.ndarray:
    """Which of some rows `[h, R]` have at least that weight `[h]`, and may be among the strongest of the batch."""
    strong: np.ndarray = mask & (weight >= np.maximum(least, _TINY)[:, None])
    if rows.count > MOST and np.count_nonzero(strong) > _FEW * len(weight):
        of_texts = rows.by_text(np.where(strong, weight, 0)).max(axis=-1)  # [h, B]
        bar = np.partition(of_texts, -MOST, axis=-1)[:, -MOST, None]
        strong &= weight >= bar
    return strong


class _Cells(NamedTuple):
    """Cells that may be examples `[E]`: the number of head and kind, the text in the batch, and as in Examples."""

    group: np.ndarray
    text: np.ndarray
    weight: np.ndarray
    document: np.ndarray
    piece: np.ndarray
    query: np.ndarray
    key: np.ndarray


def _ranked(cells: _Cells, heads: int) -> Examples:
    """The strongest cells of each head and kind, one of a text."""
    order = np.lexsort((cells.query, cells.piece, cells.document, -cells.weight, cells.group))
    cells = _Cells(*(x[order] for x in cells))
    _, first = np.unique(np.stack([cells.group, cells.text]), axis=1, return_index=True)
    cells = _Cells(*(x[np.sort(first)] for x in cells))
    rank = np.arange(len(cells.group)) - np.searchsorted(cells.group, cells.group)
    best = rank < MOST
    examples = Examples.none(heads)
    for name in ("weight", "document", "piece", "query", "key"):
        numbers = getattr(examples, name).reshape(-1, MOST)
        numbers[cells.group[best], rank[best]] = getattr(cells, name)[best]
    return examples


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
