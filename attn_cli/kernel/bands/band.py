"""A band, and the memory that one band after the other is computed in."""

from dataclasses import dataclass, field, replace
from math import prod

from attn_cli.arrays import Array, namespace, on_cpu, to_numpy
from attn_cli.kernel.bands.masked_cells import with_infinities


@dataclass(frozen=True)
class Band:
    """The weights of b adjacent queries start:stop on c keys first:last; all other keys are masked for all of them.

    weights     `[h, b, c]` of h query heads
    raw_scores  `[h, b, c]`, with the lowest finite number where masked, so that a weight of 0 times its score is 0
    output      `[h, b, e]`, the weights times the values
    heads       which of the call's heads these are: all of them, unless some heads are computed at a time
    lengths     `[h, b, c]`: each key's weight times the norm of its value, or that after W_O; None likewise
    hidden      `[h, b]`: the weight of each row on the columns `blank`, keys that the user left out; 0 here

    Don't keep any of the arrays: the next band is computed in the same memory, and readers may overwrite the scores.
    """

    start: int
    stop: int
    first: int
    last: int
    weights: Array
    raw_scores: Array | None
    output: Array
    heads: slice = field(default_factory=lambda: slice(None))
    lengths: Array | None = None
    hidden: Array | None = None
    blank: tuple[int, ...] = ()

    def in_numpy(self) -> "Band":
        """The same band, its arrays views in NumPy where they lie in main memory: small steps cost less there."""
        if not on_cpu(self.weights):
            return self
        arrays = self.weights, self.raw_scores, self.output, self.lengths, self.hidden
        weights, scores, output, lengths, hidden = (None if x is None else to_numpy(x) for x in arrays)
        return replace(self, weights=weights, raw_scores=scores, output=output, lengths=lengths, hidden=hidden)

    def measured(self, by: str, *, together: bool) -> Array:
        """The numbers `[h, b, c]` that rank b queries' c keys: weights, or shares of their rows by value or output.

        Of heads `together` `[1, b, c]`: the mean weight, or the share by the norm of their vectors side by side.
        """
        if by == "weight":
            return self.weights.mean(0)[None] if together else self.weights
        lengths: Array = self.lengths
        shares = row_shares(namespace(lengths).sqrt((lengths**2).sum(0))[None] if together else lengths)
        shares[:, :, list(self.blank)] = 0
        return shares

    @property
    def scores(self) -> Array | None:
        """A copy of the scores that the softmax gets `[h, b, c]`, -inf where masked; None if they weren't asked for."""
        return None if self.raw_scores is None else with_infinities(self.raw_scores)


def row_shares(lengths: Array) -> Array:
    """Norms of what each of c keys brings to b rows `[h, b, c]`, over their row's sum; 0 in a row where all are 0."""
    xp = namespace(lengths)
    sums = xp.sum(lengths, axis=-1, keepdims=True)
    return lengths / xp.where(sums > 0, sums, xp.ones_like(sums))


class Buffer:
    """Memory for `size` numbers in the library and dtype of an array, used again for each band."""

    def __init__(self, like: Array, size: int) -> None:
        self.flat = namespace(like).empty(size, dtype=like.dtype, device=like.device)

    def view(self, *shape: int) -> Array:
        """The first numbers of the buffer as an array of `shape`."""
        return self.flat[: prod(shape)].reshape(shape)
