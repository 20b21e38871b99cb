"""What each head gives from some queries to some keys: which heads attend from A to B."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attn_cli.fields import SHARE, STREAM, TEXT, Field, Output, Rows
from attn_cli.prompt import Token
from attn_cli.summaries.call_fields import HEAD, LAYER, LAYERS
from attn_cli.summaries.reduce import Part, Summary
from attn_cli.summaries.reducers.matrix import FullMatrix

_ROW = (
    STREAM,
    LAYER,
    HEAD,
    Field("query_token", TEXT, "of --token; several with + between, all without"),
    Field("key_token", TEXT, "of --key; several with + between"),
    Field("weight", SHARE, "of the keys together, mean over the queries"),
)
ATTENDING = Field("attending", Rows(_ROW, "one head, largest weight first"))
OUTPUT = Output("attn.attending/1", "The heads by their weight from some queries to some keys.", (LAYERS, ATTENDING))


@dataclass(frozen=True, eq=False)
class Attending(Part):
    """The weight `[h]` of each head from the queries `rows` (mean; None for all) to the keys (sum)."""

    name: ClassVar[str] = "attending"
    together: ClassVar[bool] = True

    weights: np.ndarray
    rows: tuple[int, ...] | None
    keys: tuple[int, ...]

    def records(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One row per head: layer, head, the tokens of queries and keys, weight from 0 to 1."""
        queries = "all" if self.rows is None else _joined([summary.queries[row] for row in self.rows])
        keys = _joined([summary.keys[key] for key in self.keys])
        for head, weight in zip(summary.place.heads, self.weights.tolist(), strict=True):
            lead = {"layer": summary.place.layer, "head": head}
            yield lead | {"query_token": queries, "key_token": keys, "weight": weight}

    def arrays(self) -> dict[str, np.ndarray]:
        """`weight` `[h]`."""
        return {"weight": self.weights}

    def labels(self) -> dict[str, np.ndarray]:
        """The token indices `queries` `[r]`, left out for all, and `keys` `[c]`."""
        return {"keys": np.array(self.keys)} | ({} if self.rows is None else {"queries": np.array(self.rows)})


def _joined(tokens: list[Token]) -> str:
    return "+".join(token.text for token in tokens)


class AttendingHeads(FullMatrix):
    """Makes `Attending` of a call, for some rows (None for all) and keys."""

    def result(self) -> Attending:  # type: ignore[override]
        """The heads' weights: summed over keys, mean over rows."""
        assert self.kept_weights is not None and self.keys is not None
        weights = self.kept_weights.sum(axis=2, dtype=np.float64).mean(axis=1)
        return Attending(weights, None if self.rows is None else tuple(self.rows), tuple(self.keys))
