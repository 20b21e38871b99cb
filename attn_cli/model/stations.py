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
    """One station: the number of its layer, and its kind.

    Those of the whole model are of layer `BEFORE_LAYERS` or `AFTER_LAYERS`.
    """

    layer: int
    kind: str

    @property
    def order(self) -> tuple[int, int]:
        """The key that sorts stations in the order of the forward pass: the layer, then the kind's index in `KINDS`."""
        return self.layer, _RANK[self.kind]

    @property
    def words(self) -> str:
        """The name of the station's kind as screens say it, such as "q after rotary"."""
        return KINDS[self.kind]

    @property
    def made_at(self) -> "Station":
        """The station at which its numbers are made: of the residual before a layer the end of the layer before."""
        return Station(self.layer - 1, "residual") if self.kind == "residual_in" and self.layer > 0 else self

    @property
    def is_of_layer(self) -> bool:
        """True for a station of one layer, False for one of the whole model."""
        return 0 <= self.layer < AFTER_LAYERS


def station(kind: str, layer: int = 0) -> Station:
    """The station of a kind, of a layer where it is of one."""
    if kind == "embedding":
        return Station(BEFORE_LAYERS, kind)
    return Station(AFTER_LAYERS if kind in ("final_norm", "logits") else layer, kind)


class Shape(NamedTuple):
    """The shape of a station's array: heads (0 for a vector per token) and the width of one."""

    heads: int
    width: int


Arrive = Callable[[Station, np.ndarray], None]
"""Gets a station and its numbers `[n, heads, width]` or `[n, width]`, which it must not keep without copying."""


class PlantedMistake(NamedTuple):
    """A mistake that a reference can be run with.

    name    in a word or two
    words   as a sentence that goes on after "likely cause:"
    kind    of the first station in a layer that it changes
    """

    name: str
    words: str
    kind: str


Mistakes = Mapping[PlantedMistake, Collection[int] | None]
"""Mistakes that are made, each in the layers that it has here; in all for None."""

Given = Mapping[Station, Callable[[], np.ndarray]]
"""What reads the numbers `[n, heads, width]` or `[n, width]` that a pass goes on with behind a station."""


class Reference(Protocol):
    """A model that is run through its stations as it must be, in another precision, or with mistakes."""

    def shapes(self, ids: Sequence[int]) -> dict[Station, Shape]:
        """Every station, with its shape, in the order of the pass."""

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
        """One pass over tokens, which ends with the last wanted station; logits come for `logit_rows` alone.

        given      in place of the model's own numbers, of at least so many tokens
        precision  to which numbers are rounded as if the model were computed in it: float32, bfloat16, float16, 4-bit
        draw       above 0, rounding goes up or down by chance, another way for each number
        """

    def mistakes(self, layer: int) -> Sequence[PlantedMistake]:
        """The mistakes of an implementation that can be planted in a layer, the more usual ones first."""

    def logit_rows(self, tokens: int) -> np.ndarray:
        """The positions of which logits come, in a text of so many tokens: all, or as many as memory has room for."""
