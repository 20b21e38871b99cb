"""The writers of an attention score: who wrote the query and who wrote the key, in a model's residual stream."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np

from attn_cli.attention_call import AttentionCall
from attn_cli.prompt import Prompt
from attn_cli.selection import Selection

if TYPE_CHECKING:
    from attn_cli.model.intervention import HeadPlace


class Writer(NamedTuple):
    """A component of a model that adds a vector to the residual stream.

    kind    "embedding", "positions", "head", "attention" (a layer whose heads can't be told apart), "mlp" (all that a
            block adds beside attention), "biases" (of W_O, of norms, of the projections to queries and keys), or the
            name of another module
    layer   the number of its block; None outside blocks
    head    its number, of a head
    stream  as `Place.stream` names it; "" outside blocks
    """

    kind: str
    layer: int | None = None
    head: int | None = None
    stream: str = ""

    @property
    def name(self) -> str:
        """The name on screens and in tables.

        >>> Writer("head", 19, 7, "self").name, Writer("mlp", 2, None, "encoder").name, Writer("embedding").name
        ('head 19.7', 'encoder MLP 2', 'embedding')
        """
        stream = f"{self.stream} " if self.stream not in ("", "self") else ""
        if self.head is not None:
            return f"{stream}head {self.layer}.{self.head}"
        kind = "MLP" if self.kind == "mlp" else self.kind
        return kind if self.layer is None else f"{stream}{kind} {self.layer}"


BIASES = Writer("biases")


class RowChoice(NamedTuple):
    """One row of a head and some of its keys, whose scores are to be written as sums over what adds to them.

    Each is held against the score of key `against`, or the mean of all visible keys where that is None.

    head     its place among the heads of the call
    row      the query's index in the call
    visible  the keys that the row may see `[m]`, of which the mean is taken
    """

    head: int
    row: int
    keys: tuple[int, ...]
    visible: np.ndarray
    against: int | None = None


@dataclass(frozen=True, eq=False)
class WrittenRow:
    """The query of one row, and some of its keys, as sums over W writers to the residual stream, with norms held fixed.

    A writer is what adds a vector to that stream: the embedding, each head, each MLP, biases (see `Writer`).

    queries   `[W, d]`, after rotary positions and times the scale of the scores
    keys      `[keys, W, d]` of the chosen keys, each minus the key `against` or the mean of the visible keys
    obstacle  why they can't be written as such sums; "" where they are

    The dot product of a query and a key is the contrast of a score: the score before softcap and bias, less that of
    `against` or the mean of the visible keys.
    """

    place: "HeadPlace"
    writers: tuple[Writer, ...]
    queries: np.ndarray
    keys: np.ndarray
    obstacle: str = ""

    def pairs(self, at: int) -> np.ndarray | None:
        """What each pair of writers adds to the contrast of key `at`: `[W of the query, W of the key]`.

        Writers and contrast are those of `WrittenRow`; None where the row has an `obstacle`.
        """
        if self.obstacle:
            return None
        return self.queries @ self.keys[at].T


@dataclass(frozen=True, eq=False)
class WrittenHead:
    """One head's query in one row, and all its m keys and values, as sums over W writers, with norms held as they were.

    A writer is what adds a vector to the residual stream: the embedding, each head, each MLP, biases (see `Writer`).

    call      the head's call
    queries   `[W, d]`, times the scale of the scores
    keys      `[m, W, d]`
    values    `[m, W, e]`
    """

    call: AttentionCall
    writers: tuple[Writer, ...]
    queries: np.ndarray
    keys: np.ndarray
    values: np.ndarray


@runtime_checkable
class ReadsWriters(Protocol):
    """A source that can write queries, keys and values as sums over what adds to the residual stream (see `Writer`)."""

    def written_rows(
        self, prompt: Prompt, selection: Selection, choose: Callable[[AttentionCall], Sequence[RowChoice]]
    ) -> list[WrittenRow]:
        """The rows that `choose` picks of each selected attention call, as `WrittenRow`s in the order of the calls.

        It takes a pass over the prompt for each layer. Raises LoadError for attention that shows no queries and keys.
        """

    def written_head(self, prompt: Prompt, place: "HeadPlace", row: int) -> WrittenHead:
        """One head's query in row `row`, from 0, its keys and its values, as sums over writers (see `Writer`).

        LoadError for attention that can't be written so.
        """
