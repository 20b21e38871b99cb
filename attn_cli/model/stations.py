"""The stations of a model's pass, in the order in which it computes them, and a reference that is run through them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

KINDS = {
    "embedding": "embedding",
    "residual_in": "residual before the layer",
    "normed": "attention's input",
    "q_projected": "q as projected",
    "k_projected": "k as projected",
    "v_projected": "v as projected",
    "qkv_projected": "q, k, v as projected",
    "q": "q before rotary",
    "k": "k before rotary",
    "v": "v",
    "q_rotated": "q after rotary",
    "k_rotated": "k after rotary",
    "heads": "heads' output",
    "w_o_input": "W_O's input",
    "attention": "attention after W_O",
    "attention_normed": "norm behind attention",
    "residual_mid": "residual after attention",
    "mlp_normed": "MLP's input",
    "mlp": "MLP's output",
    "mlp_output_normed": "norm behind the MLP",
    "residual": "residual after the layer",
    "final_norm": "final norm",
    "logits": "logits",
}
"""The kinds of stations in their order within a layer, each in words; the first and the last two are the model's."""

OF_HEADS = frozenset({"q", "k", "v", "q_rotated", "k_rotated", "heads"})
BEFORE_LAYERS, AFTER_LAYERS = -1, 2**31
_RANK = {kind: rank for rank, kind in enumerate(KINDS)}


class Station(NamedTuple):
    """A place in the forward pass at which numbers can be compared.

    layer  from 0; -1 for the embedding, 2**31 for the final norm and the logits
    kind   a key of `KINDS`, such as "q", "q_rotated" or "residual"
    """

    layer: int
    kind: str

    @property
    def order(self) -> tuple[int, int]:
        """What sorts places in the forward pass: the layer, then the index of the kind, such as "q", in `KINDS`."""
        return self.layer, _RANK[self.kind]

    @property
    def words(self) -> str:
        """What screens call this place in the pass, such as "q after rotary"."""
        return KINDS[self.kind]

    @property
    def made_at(self) -> "Station":
        """The place in the pass where the same numbers are made: of a layer's input the layer before, else itself."""
        return Station(self.layer - 1, "residual") if self.kind == "residual_in" and self.layer > 0 else self

    @property
    def is_of_layer(self) -> bool:
        """True for a place in one layer, such as q; False for one of the whole model, such as the logits."""
        return 0 <= self.layer < AFTER_LAYERS


def station(kind: str, layer: int = 0) -> Station:
    """The place in the pass of a kind: in `layer`, or of the whole model for the embedding, final norm and logits."""
    if kind == "embedding":
        return Station(BEFORE_LAYERS, kind)
    return Station(AFTER_LAYERS if kind in ("final_norm", "logits") else layer, kind)


class Shape(NamedTuple):
    """The shape of a token's numbers at a place in the pass: how many heads, and how many columns each has.

    heads  0 for one vector per token, of `width` columns
    """

    heads: int
    width: int


Arrive = Callable[[Station, np.ndarray], None]
"""Gets a station and its numbers `[n, heads, width]` or `[n, width]`, which it must not keep without copying."""


class PlantedMistake(NamedTuple):
    """A mistake of an implementation, such as a scale left out, that a reference model can be run with on purpose.

    name    in a word or two
    words   as a sentence that goes on after "likely cause:"
    kind    the first place in a layer whose numbers it changes, such as "q_rotated"
    """

    name: str
    words: str
    kind: str


Mistakes = Mapping[PlantedMistake, Collection[int] | None]
"""Mistakes that are made, each in the layers that it has here; in all for None."""

Given = Mapping[Station, Callable[[], np.ndarray]]
"""What reads the numbers `[n, heads, width]` or `[n, width]` that a pass goes on with behind a station."""


class Reference(Protocol):
    """A model whose numbers are seen at named places of its pass (stations), as it is or with mistakes made on purpose.

    It also runs as if computed in another precision.
    """

    def shapes(self, ids: Sequence[int]) -> dict[Station, Shape]:
        """The shape of the numbers at every place of the pass where they are seen (station), in the order of the
        pass.
        """

    def run(
        self,
        ids: Sequence[int],
        wanted: Collection[Station],
        arrive: Arrive,
        *,
        given: Given | None = None,
        precision: str | None = None,
        draw: int = 0,
        mistakes: Mistakes | None = None,
    ) -> None:
        """One pass over tokens: `arrive` gets each wanted place of the pass (station) with its numbers, in order."""

    def mistakes(self, layer: int) -> Sequence[PlantedMistake]:
        """The mistakes of an implementation that can be made on purpose in this layer, the more usual ones first."""

    def logit_rows(self, tokens: int) -> np.ndarray:
        """The positions, from 0, of which logits come in a text of so many tokens: as many as memory has room for."""
