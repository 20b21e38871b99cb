"""The lengths of the values of a call, or of a recorded one."""

import numpy as np

from attn_cli.arrays import namespace, to_numpy
from attn_cli.call import Call
from attn_cli.recording import RecordedLayer


def value_norms(call: Call) -> np.ndarray | None:
    """The length of each key's value, for every query head `[h, m]`; None where there are no values."""
    if isinstance(call, RecordedLayer) and call.value_norms is not None:
        norms = call.value_norms
    elif call.v is None or call.e == 0:
        return None
    else:
        norms = to_numpy(namespace(call.v).linalg.vector_norm(call.v, axis=-1))
    return np.repeat(norms.astype(np.float64), call.h // max(1, len(norms)), axis=0)
