"""The precision in which a dump's arrays were computed, by their dtype or by the numbers that they hold."""

from collections.abc import Sequence

import numpy as np

from attn_cli.dump import DumpArray
from attn_cli.kernel.lessons.precision import precision_of

_SAMPLED = 2**16  # numbers of an array that tell its precision


def precision_of_arrays(arrays: Sequence[DumpArray]) -> str:
    """The lowest precision among the arrays: "bfloat16", else "float16", else "float32".

    The first numbers of a float32 or float64 array say whether it was computed in less; float8 counts as bfloat16.
    """
    found: set[str] = set()
    for array in arrays:
        name = array.precision
        if name in ("float32", "float64"):
            name = precision_of(np.asarray(array.read()).reshape(-1)[:_SAMPLED]).name
        found.add(name)
    for name in ("bfloat16", "float16"):
        if name in found or (name == "bfloat16" and any(each.startswith("float8") for each in found)):
            return name
    return "float32"
