"""The tiny tables that introductions to attention work through by hand, small enough to check with a pencil.

Inputs only. What follows from them (with softmax over each row, no mask, one head):

    my-name-is-ankit            x xᵀ, row Ankit: 0.1452 0.4248 0.2872 0.7888
    my-name-is-ankit-projected  q kᵀ, row Ankit: 3 2 2 5; weights .1640 .0808 .0808 .6744 at scale 1/sqrt(2)
    the-cat-sat-down            x as q, k and v, scale 1/sqrt(3), row The: weights .3680 .2066 .2189 .2066

`the-cat-sat` usually has a row of scores of its own, 2 4 6 for "cat": q kᵀ of the table gives .66 .91 .93 there.
"""

import numpy as np
import numpy.typing as npt

from attn_cli.sources.tables.table import VectorTable


def _rows(*rows: tuple[float, ...]) -> npt.NDArray[np.float64]:
    return np.array(rows, dtype=np.float64)


_ANKIT_WORDS = ("My", "name", "is", "Ankit")
_ANKIT_VECTORS = _rows((0.12, 0.33), (0.51, -0.20), (0.22, 0.78), (0.88, 0.12))

SMALL_TABLES = {
    table.name: table
    for table in (
        VectorTable(
            name="the-cat-sat",
            words=("the", "cat", "sat"),
            vectors=_rows((0.2, 0.7, 0.1, 0.4), (0.8, 0.3, 0.5, 0.2), (0.1, 0.6, 0.9, 0.4)),
            q=_rows((0.3, 0.6, 0.1, 0.2), (0.7, 0.4, 0.5, 0.3), (0.2, 0.5, 0.8, 0.4)),
            k=_rows((0.5, 0.2, 0.4, 0.1), (0.6, 0.7, 0.3, 0.2), (0.4, 0.3, 0.7, 0.6)),
            v=_rows((0.1, 0.4, 0.2, 0.5), (0.5, 0.6, 0.3, 0.1), (0.7, 0.2, 0.4, 0.8)),
            heads=1,
        ),
        VectorTable(
            name="my-name-is-ankit",
            words=_ANKIT_WORDS,
            vectors=_ANKIT_VECTORS,
            heads=1,
        ),
        VectorTable(
            name="my-name-is-ankit-projected",
            words=_ANKIT_WORDS,
            vectors=_ANKIT_VECTORS,
            q=_rows((1, 0), (0, 1), (1, 1), (2, 1)),
            k=_rows((1, 1), (0, 2), (1, 0), (2, 1)),
            heads=1,
        ),
        VectorTable(
            name="the-cat-sat-down",
            words=("The", "cat", "sat", "down"),
            vectors=_rows((1, 0, 0), (0, 1, 0.2), (0.1, 0.2, 1), (0, 0, 1)),
            heads=1,
        ),
    )
}
