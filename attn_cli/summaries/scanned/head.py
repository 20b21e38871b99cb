"""attn scan show --head: all that a scan knows of one head."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, ClassVar, NamedTuple

import numpy as np

from attn_cli.fields import (
    CHANCE,
    COUNT,
    FLAG,
    INTEGER,
    POSITIVE,
    SHARE,
    TEXT,
    Field,
    Output,
    Rows,
    made,
    or_none,
    within,
)
from attn_cli.summaries.report import Answer
from attn_cli.summaries.scanned.corpus import CORPUS, KIND_ESTIMATE, PLACE, KindEstimate, ScannedCorpus
from attn_cli.summaries.scanned.heads import HEAD, STATISTICS, ScannedHead, columns_of


class WeightRange(NamedTuple):
    """Distances from query to key in tokens, or key positions, from `first` to `last`, both included; None for no end.

    weight    the share of the head's weight on keys in that range, 0 to 1
    baseline  what uniform attention would give them
    """

    first: int | None
    last: int | None
    weight: float
    baseline: float

    @property
    def label(self) -> str:
        """The range as text: `3`, `9-16`, `1025-`, `-16 to -9`; distances of keys after the query are negative."""
        if self.first == self.last:
            return f"{self.first}"
        between = " to " if (self.first or 0) < 0 or (self.last or 0) < 0 else "-"
        return f"{'' if self.first is None else self.first}{between}{'' if self.last is None else self.last}".strip()


class TokenCount(NamedTuple):
    """A token that a head attends from, or to, most often.

    token  its name in the vocabulary
    times  for how many query rows of the corpus it is the key of the row's largest weight; or, where the head attends
           from it, the query of a row whose largest weight is not on an expected sink (first key, special tokens)
    rows   how often the token is in the corpus
    exact  whether these are exact counts; False where the vocabulary was too large to count every token
    """

    token: str
    times: int
    rows: int
    exact: bool


class ScanExample(NamedTuple):
    """An example of a head in a corpus: a query and key with a large weight, and the text around them.

    kind, rank   the kind of head that it shows, and its number among these, from 1, the largest weight first
    document, piece  numbers from 0 of the document, and of its piece where it was cut; `file` and `record` where it was
                     read
    text         what the model read, or an excerpt around query and key
    whole        whether the text is all that the model read
    first, last  the characters of the record's text that the model read: the first, and one past the last
    query_span, key_span  (start, end) of each token's characters in `text`; None where it isn't there
    """

    kind: str
    rank: int
    weight: float
    document: int
    piece: int
    file: str
    record: int
    query: int
    key: int
    query_token: str
    key_token: str
    text: str
    whole: bool
    first: int
    last: int
    query_span: tuple[int, int] | None
    key_span: tuple[int, int] | None


_RANGE_NUMBERS = (
    Field("weight", POSITIVE, "share of the head's weight"),
    Field("baseline", POSITIVE, "what uniform attention would give"),
)
_DISTANCE, _POSITION = (
    (Field("first", or_none(INTEGER), f"the least {noun}; null for no end"),
     Field("last", or_none(INTEGER), "the largest; null for no end"), *_RANGE_NUMBERS)
    for noun in ("distance", "place")
)  # fmt: skip
_TOKEN = (
    Field("token", TEXT, "its name in the vocabulary"),
    Field("times", COUNT, "for how many rows"),
    Field("rows", COUNT, "how often the token is in the corpus"),
    Field("exact", FLAG, "false where the vocabulary was too large to count every token"),
)
_PART = (
    Field("part", TEXT, "the field or role", itemgetter(0)),
    *(replace(field, value=itemgetter(at)) for at, field in enumerate(_RANGE_NUMBERS, 1)),
)
EXAMPLE = (
    Field("kind", TEXT, "of what it is an example: a kind, or any"),
    Field("rank", COUNT, "from 1, the largest weight first"),
    Field("weight", SHARE, "of the cell"),
    Field("document", COUNT, "number of the document, from 0"),
    Field("piece", COUNT, "number of the piece where it was cut, from 0"),
    Field("file", TEXT, "the file it was read from"),
    Field("record", COUNT, "line or row of that, from 1"),
    Field("query", COUNT, "row of the cell"),
    Field("key", COUNT, "its column"),
    Field("query_token", TEXT, "the query's token"),
    Field("key_token", TEXT, "the key's token"),
    Field("text", TEXT, "what the model read, of a long text what is around query and key"),
    Field("whole", FLAG, "whether that is all that it read"),
    Field("first", COUNT, "first character of the record that it read"),
    Field("last", COUNT, "one past the last"),
    Field(
        "query_start",
        or_none(INTEGER),
        "first character of the query's token in text; null where it isn't in it",
        lambda example: example.query_span and example.query_span[0],
    ),
    Field(
        "query_end",
        or_none(INTEGER),
        "one past the last character of the query's token in text; null where it isn't in it",
        lambda example: example.query_span and example.query_span[1],
    ),
    Field(
        "key_start",
        or_none(INTEGER),
        "first character of the key's token in text; null where it isn't in it",
        lambda example: example.key_span and example.key_span[0],
    ),
    Field(
        "key_end",
        or_none(INTEGER),
        "one past the last character of the key's token in text; null where it isn't in it",
        lambda example: example.key_span and example.key_span[1],
    ),
)
FIELDS = (
    *within("corpus", CORPUS),
    *within("head.place", PLACE),
    *within("head", HEAD),
    Field("certainty", CHANCE, "how sure the kind is; null where there is none",
          lambda answer: None if answer.head.kind is None else answer.head.kind.certainty),
    Field("statistics", STATISTICS.type, STATISTICS.meaning, lambda answer: STATISTICS.read(answer.head)),
    Field("kinds", Rows(KIND_ESTIMATE), "what it gives to the targets of every kind"),
    Field("distances", Rows(_DISTANCE), "its weight by distance from query to key, negative for keys after the query"),
    Field("positions", Rows(_POSITION), "its weight by place of the key"),
    Field("tokens_to", Rows(_TOKEN), "tokens that are most often the key of a row's largest weight", "received"),
    Field("tokens_from", Rows(_TOKEN), "tokens of the rows whose largest weight is most often on no expected sink",
          "sent"),
    Field("parts", Rows(_PART), "its weight by fields of records or roles of messages"),
    Field("examples", Rows(EXAMPLE), "the strongest cells of every kind, one of a document"),
)  # fmt: skip
OUTPUT = Output("attn.scan_head/2", "All that a scan knows of one head. input is empty.", FIELDS)


@dataclass(frozen=True, eq=False)
class ScanHead(Answer):
    """One head of a scan, with all that is known of it; numbers are over all documents.

    model      as -m names it
    folder     the scan's
    head       its place, kind and statistics
    kinds      what it gives to the keys that define each kind of head
    distances  its weight by distance from query to key, from keys far ahead to far back
    positions  its weight by key position, from the first on
    sent, received  tokens that it attends from and to most often
    parts      (name, share of the head's weight on its keys, that of uniform attention) for each named part of the
               documents; () without named parts
    examples   by kind, strongest first
    """

    name: ClassVar[str] = "scan_head"
    fields: ClassVar[Sequence[Field]] = FIELDS

    model: str
    folder: str
    corpus: ScannedCorpus
    head: ScannedHead
    kinds: tuple[KindEstimate, ...]
    distances: tuple[WeightRange, ...]
    positions: tuple[WeightRange, ...]
    sent: tuple[TokenCount, ...]
    received: tuple[TokenCount, ...]
    parts: tuple[tuple[str, float, float], ...]
    examples: tuple[ScanExample, ...]

    def records(self) -> Iterator[dict[str, Any]]:
        """One row per example, a query and key of one document: the head's layer and number, then the example."""
        return (made(PLACE, self.head.place) | made(EXAMPLE, example) for example in self.examples)

    def arrays(self) -> dict[str, np.ndarray]:
        """The columns of `records` by their names, `[examples]` each; `file` is called `files`, for NumPy's sake."""
        columns = columns_of([*self.records()])
        return {"files" if name == "file" else name: column for name, column in columns.items()}
