"""The lengths of the values of a call, or of a recorded one: by key head, by query head, and over their median."""

import numpy as np

from attn_cli.arrays import at_least_float32, namespace, to_numpy
from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call
from attn_cli.recording import RecordedLayer
from attn_cli.summaries.calls.read_shares import ReadShares
from attn_cli.summaries.median import median


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
    if norms is None or not norms.size:
        return None
    norms = norms.astype(np.float64)
    middle = median(norms, axis=1)[:, None]
    return np.divide(norms, middle, out=np.ones_like(norms), where=middle > 0)
