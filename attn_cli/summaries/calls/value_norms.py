"""The lengths of the values of a call, or of a recorded one: as they are, by query head, and over their median."""

import numpy as np

from attn_cli.arrays import namespace, to_numpy
from attn_cli.call import Call
from attn_cli.recording import RecordedLayer
from attn_cli.summaries.median import median


def value_norms(call: Call) -> np.ndarray | None:
    """The length of each key's value, for every query head `[h, m]`; None where there are no values."""
    norms = _of_key_heads(call)
    return None if norms is None else np.repeat(norms, call.h // max(1, len(norms)), axis=0)


def relative_value_norms(call: Call) -> np.ndarray | None:
    """The length of each value over the median of its key head's `[g, m]`; None without values or without keys."""
    norms = _of_key_heads(call)
    if norms is None or not norms.size:
        return None
    middle = median(norms, axis=1)[:, None]
    return np.divide(norms, middle, out=np.ones_like(norms), where=middle > 0)


def _of_key_heads(call: Call) -> np.ndarray | None:
    """The length of each value `[g, m]`; None where there are no values."""
    if isinstance(call, RecordedLayer) and call.value_norms is not None:
        return call.value_norms.astype(np.float64)
    if call.v is None or call.e == 0:
        return None
    return to_numpy(namespace(call.v).linalg.vector_norm(call.v, axis=-1)).astype(np.float64)
