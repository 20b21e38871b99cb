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
    head    the head's number; None for all but heads
    stream  the stack that the block is in: "self", "encoder", "decoder" ...; "" outside blocks
    """

    kind: str
    layer: int | None = None
    head: int | None = None
    stream: str = ""

    @property
    def name(self) -> str:
        """The component's name on screens and in tables.

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
    """One row of a head and some of its keys, whose scores are to be written as sums over the model's components.

    Components add vectors to the residual stream: the embedding, each head, each MLP, biases. A score is written less
    that of key `against`, or less the mean of all visible keys where that is None.

    head     the head's index among the heads of the attention call
    row      the query's index in it
    keys     the indices of the keys whose scores are written
    visible  the keys that the row may see `[m]`, of which the mean is taken
    """

    head: int
    row: int
    keys: tuple[int, ...]
    visible: np.ndarray
    against: int | None = None


@dataclass(frozen=True, eq=False)
class WrittenRow:
    """The query of one row, and some of its keys, as sums over W components of the model, with norms held fixed.

    A component (`writers`) is what adds a vector to the residual stream: the embedding, each head, each MLP, biases.

    queries   `[W, d]`, after rotary positions and times the scale of the scores
    keys      `[keys, W, d]` of the chosen keys, each minus the key `against` or the mean of the visible keys
    obstacle  why they can't be written as such sums; "" where they are

    The product of the summed query and a summed key is the score before softcap and bias, less that of `against` or the
    mean of the visible keys.
    """

    place: "HeadPlace"
    writers: tuple[Writer, ...]
    queries: np.ndarray
    keys: np.ndarray
    obstacle: str = ""

    def pairs(self, at: int) -> np.ndarray | None:
        """What each pair of components adds to the score of chosen key number `at`: `[W of the query, W of the key]`.

        A component is what adds to the residual stream. All pairs add up to the score before softcap and bias, less
        that of the key `against` or the mean of the visible keys. None where the row has an `obstacle`.
        """
        if self.obstacle:
            return None
        return self.queries @ self.keys[at].T


@runtime_checkable
class ReadsWriters(Protocol):
    """A source (a model that reads texts) that can write queries, keys and values as sums over the model's components.

    These are what adds to the residual stream: the embedding, each head, each MLP, biases.
    """

    def written_rows(
        self, prompt: Prompt, selection: Selection, choose: Callable[[AttentionCall], Sequence[RowChoice]]
    ) -> list[WrittenRow]:
        """The rows that `choose` picks in each selected layer, with their scores as sums over the model's components.

        One for each row, in the order of the layers. It takes a pass over the prompt for each layer. Raises LoadError
        for attention that shows no queries and keys.
        """
