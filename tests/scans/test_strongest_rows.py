"""The strongest rows of each kind, against a loop over heads, kinds and texts."""

import numpy as np

from attn_cli.scans.numbers.examples import strongest_rows

H, TEXTS, N, KINDS, MOST = 3, 9, 6, 17, 5
RANDOM = np.random.default_rng(0)
WEIGHTS = (RANDOM.integers(0, 5, (H, TEXTS * N)) / 4).astype(np.float32)  # many are equally strong, or 0
BITS = RANDOM.integers(0, 2**KINDS, WEIGHTS.shape).astype(np.uint32) & RANDOM.integers(0, 2**KINDS, WEIGHTS.shape)
LEAST = RANDOM.integers(0, 4, (H, KINDS)) / 4
LEAST[0, 0] = 2  # nothing is as strong
ORDER = RANDOM.permutation(TEXTS)


def wanted(head: int, kind: int) -> list[int]:
    """The strongest of the rows that are the first strongest of their texts, equal ones by the text's place."""
    best: list[tuple[float, int, int]] = []
    for place, text in enumerate(ORDER.tolist()):
        rows = [row for row in range(text * N, (text + 1) * N) if BITS[head, row] >> kind & 1]
        strong = [(-float(WEIGHTS[head, row]), place, row) for row in rows if WEIGHTS[head, row] >= LEAST[head, kind]]
        best += sorted(cell for cell in strong if cell[0] < 0)[:1]
    rows = [row for _, _, row in sorted(best)[:MOST]]
    return rows + [-1] * (MOST - len(rows))


def test_they_are_one_of_a_text_by_weight_and_then_by_the_texts_order() -> None:
    found = strongest_rows(WEIGHTS, BITS.astype(np.uint32), LEAST, ORDER, MOST)
    expected = [[wanted(head, kind) for kind in range(KINDS)] for head in range(H)]
    assert found.tolist() == expected
    assert {0, MOST} < {sum(row >= 0 for row in rows) for head in expected for rows in head}
