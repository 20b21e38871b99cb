"""A call with what is read, weight times length of value, as shares of a row (Kobayashi et al. 2020)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from attn_cli.arrays import Array, at_least_float32, namespace, to_numpy
from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call
from attn_cli.errors import InputError, LoadError
from attn_cli.kernel.bands.band import Band
from attn_cli.kernel.definition.heads import expand_groups
from attn_cli.recording import RecordedLayer
from attn_cli.summaries.calls.derived import DerivedCall
from attn_cli.summaries.sinks import over_median

By = Literal["weight", "value", "output", "rollout"]

_NUMBERS = 2**24  # of vectors that are held at once: 64 MiB in float32


class ReadShares(DerivedCall):
    """One layer's attention whose bands also carry what each key brings to a row, weight times norm.

    by  "value", w_ij |v_j|, or "output", w_ij |v_j W_O|, each with the head's rows of W_O
    LoadError for attention that shows no values, InputError for "output" without W_O, or of a recording.
    """

    def __init__(self, call: Call, by: By) -> None:
        super().__init__(call, call.queries, call.keys)
        self.v = call.v  # its keys are those of the call
        if isinstance(call, RecordedLayer) and by == "value" and call.value_norms is not None:
            lengths = call.value_norms
        else:
            v, matrix = _vectors_of(call, by)
            xp = namespace(v)
            norms = [xp.linalg.vector_norm(of_keys, axis=-1) for of_keys in _vectors(v, matrix)]
            lengths = xp.concat(norms, axis=-1)
        self.lengths = expand_groups(lengths[..., None], call.h)[..., 0]  # [h, m]

    def bands(
        self, *, rows: Sequence[int] | None = None, want_scores: bool = False, in_parts: bool = False
    ) -> Iterator[Band]:
        """The weights as bands of b adjacent rows and c keys, of all rows or of `rows`, with each key's share."""
        for band in self.call.bands(rows=rows, want_scores=want_scores, in_parts=in_parts):
            lengths = self.lengths[band.heads, None, band.first : band.last]
            yield replace(band, lengths=band.weights * lengths)


def _vectors_of(call: Call, by: By) -> tuple[Array, Array | None]:
    """The values `[g, m, e]`, and the matrices `[h, e, width]` (by "output" W_O) that make vectors of them."""
    if isinstance(call, RecordedLayer):
        what = "value norms alone" if by == "output" else "no value norms here"
        raise InputError(f"a recording keeps {what}: --by {by} takes more", "give the model in its place: -m MODEL")
    if not isinstance(call, AttentionCall):
        line = f"layer {call.place.layer} ({call.place.name}) shows its weights alone, not its values"
        raise LoadError(line, "--by weight works")
    v, made_of = at_least_float32(call.v), call.ingredients
    up = None if made_of.value_up is None else at_least_float32(made_of.value_up)
    if by == "value":
        return v, up
    if made_of.projection is None:
        raise InputError(f"{call.place.name} has no W_O, so it has no output norm", "--by value needs no W_O")
    projection = at_least_float32(made_of.projection)
    rows = namespace(projection).reshape(projection, (call.h, -1, projection.shape[-1]))  # [h, e, width]
    return v, rows if up is None else up @ rows


def _vectors(v: Array, matrix: Array | None) -> Iterator[Array]:
    """Values `[g, m, e]` by each head's `matrix`, of c keys at a time: `[h, c, width]`; without one, the values."""
    if matrix is None:
        yield v
        return
    xp, (g, m, e), (h, _, width) = namespace(v), v.shape, matrix.shape
    of_group = xp.reshape(matrix, (g, h // g, e, width))
    step = max(1, _NUMBERS // max(1, h * width))
    for first in range(0, m, step):
        yield xp.reshape(
            v[:, None, first : first + step, :] @ of_group, (h, -1, width)
        )  # [g, 1, c, e] @ [g, r, e, width]


def key_head_norms(call: Call) -> np.ndarray | None:
    """The norm of each value `[g, m]`, of g key heads and m keys, summed in float32 or longer."""
    if isinstance(call, ReadShares):
        call = call.call
    if isinstance(call, RecordedLayer):
        return call.value_norms
    if call.v is None or call.e == 0 or (isinstance(call, AttentionCall) and call.ingredients.value_up is not None):
        return None
    v = at_least_float32(call.v)
    return to_numpy(namespace(v).linalg.vector_norm(v, axis=-1))


def value_norms(call: Call) -> np.ndarray | None:
    """The norm of each of m keys' values in float64, for every query head `[h, m]`."""
    norms = key_head_norms(call)
    return None if norms is None else np.repeat(norms.astype(np.float64), call.h // max(1, len(norms)), axis=0)


def relative_value_norms(call: Call) -> np.ndarray | None:
    """The norm of each value over the median of its key head's, `[g, m]` of g key heads and m keys."""
    norms = key_head_norms(call)
    return None if norms is None or not norms.size else over_median(norms)
