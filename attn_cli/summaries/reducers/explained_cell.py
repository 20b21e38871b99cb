"""One key of one query with what its score is made of, and its fields in tables and JSON."""

from dataclasses import dataclass

import numpy as np

from attn_cli.fields import (
    COUNT,
    INTEGER,
    NUMBER,
    SHARE,
    STREAM,
    TEXT,
    Field,
    Output,
    Rows,
    each,
    or_none,
    within,
)
from attn_cli.summaries.call_fields import LAYERS


@dataclass(frozen=True, eq=False)
class ExplainedCell:
    """One query and one key: its weight, and what its score has beyond the mean score of the keys that the row may see.

    head, query, key  indices in the call
    weight, score  of the key; `mean_score` over the visible keys
    visible      how many keys the row may see
    content      the score less the mean at no distance in particular (at the mean rotation); None where not split
    position     the rest: what the key's distance adds, and the bias
    bias         the bias less its mean over the visible keys; None without a bias
    cap_factor   the contrast after the softcap over that before; None without a softcap
    rank         1 for the largest score among the visible; `content_rank` and `distance_rank` likewise by content and
                 by distance alone, None where not split
    contrasts    `[terms]`, one for every pair or column of the dot product, less its mean over the visible keys
    sink_weight  what a learned sink takes of the row; None without one
    """

    head: int
    query: int
    key: int
    weight: float
    score: float
    mean_score: float
    visible: int
    content: float | None
    position: float | None
    bias: float | None
    cap_factor: float | None
    rank: int
    content_rank: int | None
    distance_rank: int | None
    contrasts: np.ndarray
    sink_weight: float | None = None

    @property
    def contrast(self) -> float:
        """The score less the mean score of the visible keys."""
        return self.score - self.mean_score


_LEAST_ONE = INTEGER | {"minimum": 1}
CELL = (
    Field("layer", COUNT, "the model's own block number", "summary.place.layer"),
    Field("head", COUNT, "the model's own head number", lambda row: row["summary"].place.heads[row["cell"].head]),
    Field("query", COUNT, "the query's token index", "cell.query"),
    Field("query_token", TEXT, value=lambda row: row["summary"].queries[row["cell"].query].text),
    Field("key", COUNT, "the key's token index", "cell.key"),
    Field("key_token", TEXT, value=lambda row: row["summary"].keys[row["cell"].key].text),
    *within("cell", (
        Field("weight", SHARE, "after the softmax"),
        Field("score", NUMBER, "before the softmax: scaled, capped, with the bias"),
        Field("mean_score", NUMBER, "the mean of the scores of the visible keys"),
        Field("content", NUMBER, "contrast of the key at the mean rotation, at no distance in particular; null where "
              "not_split gives the reason"),
        Field("position", NUMBER, "the rest: what its distance adds, and the bias; content and position add up to the "
              "contrasts of all pairs and of the bias"),
        Field("bias", NUMBER, "the bias less its mean over the visible keys; null without a bias"),
        Field("rank", _LEAST_ONE, "among the visible keys by score, 1 for the largest"),
        Field("content_rank", or_none(_LEAST_ONE), "the rank that it would have by content alone"),
        Field("distance_rank", or_none(_LEAST_ONE), "the rank that it would have by its distance alone, if every key "
              "were the mean key"),
    )),
)  # fmt: skip
_TERM = (
    Field("pair", COUNT, "its number: pairs come first, the fastest turned is 0, then single columns"),
    Field("columns", each(COUNT) | {"minItems": 1, "maxItems": 2}, "its columns of the query and the key",
          lambda term: [int(column) for column in term["columns"].split("+")]),
    Field("contrast", NUMBER, "its term of the scaled dot product less the mean of that term over the visible keys"),
)  # fmt: skip
EXPLAINED = (
    *CELL,
    *within("cell", (
        Field("visible", _LEAST_ONE, "number of keys that the mask lets the query see"),
        Field("cap_factor", NUMBER, "ratio of the contrasts after and before the softcap; null without a softcap"),
        Field("sink_weight", NUMBER, "weight of a learned sink in the row; null without one"),
    )),
    *within("part", (
        Field("rotation", or_none(TEXT), "which columns one angle turns: halves (p and p + d/2) or interleaved (2p and "
              "2p + 1), of all columns or of some; null where none is known"),
        Field("not_split", or_none(TEXT), "why content and position can't be separated; null where they are"),
    )),
    Field("pairs", Rows(_TERM), "the terms of the dot product", lambda row: row["part"].terms(row["cell"])),
)  # fmt: skip
WHY = Field("why", Rows((STREAM, *EXPLAINED), "one key of one query, heaviest first"))
OUTPUT = Output("attn.why/2", "Keys of queries: what the score of each has beyond that of the mean key.", (LAYERS, WHY))
