"""What is kept of the attention calls of a plain run."""

from collections.abc import Sequence

import torch

from attn_cli.call import Place
from attn_cli.errors import LoadError
from attn_cli.intervention import AttentionLayer


class PlainCalls:
    """The attention layers of a plain run, and with `wants_means` the mean outputs of their heads."""

    def __init__(self, *, wants_means: bool) -> None:
        self.wants_means = wants_means
        self.layers: dict[tuple[int, str], AttentionLayer] = {}
        self._means: dict[tuple[int, str], torch.Tensor] = {}

    def add(self, place: Place, blocks: int, groups: Sequence[int], output: torch.Tensor | None) -> None:
        """Note a call in a stream of `blocks`; `output` is `[1, h, n, e]`, None where it isn't known.

        Raises LoadError for means that can't be taken.
        """
        where = (place.layer, place.stream)
        self.layers[where] = AttentionLayer(place.layer, place.stream, blocks, tuple(groups))
        if not self.wants_means:
            return
        if output is None or where in self._means:
            raise LoadError(
                f"layer {place.layer} ({place.name}) shows no output of its heads, so that their means are unknown",
                "leave out --mean",
            )
        n = output.shape[2]
        self._means[where] = (output.sum(2, keepdim=True) - output) / max(n - 1, 1)

    def mean_of(self, layer: int, stream: str) -> torch.Tensor | None:
        """For every row the mean output over all other rows `[1, h, n, e]`; None unless means are wanted."""
        return self._means[layer, stream] if self.wants_means else None
