"""Which rows count for a kind of head, and for how much: rows of one text, or of many side by side.

What is added up of them is told apart elsewhere: `head_kinds` for a text, `attn_cli.scans.numbers` for a corpus.
"""

import numpy as np

LEAST_KEYS = 4  # a query that sees fewer has no choice worth counting


def have_choice(keys: np.ndarray) -> np.ndarray:
    """1 for rows that see 4 keys or more, 0 for others `[R]`, given how many each of R rows sees `[R]`."""
    return (keys >= LEAST_KEYS).astype(np.float64)


def counted_rows(
    targets: np.ndarray, on_sinks: np.ndarray | int, keys: np.ndarray, *, more: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which of R rows count for a kind of head: 1 for those that see 4 keys or more, a target among them, `[R]`.

    Targets are the keys that define the kind. The second array counts the rows of these that see a target at which no
    sink is expected (key 0 of causal self-attention, else special tokens), the third has what uniform attention gives
    the targets of counted rows, 0 elsewhere.

    >>> counted_rows(np.array([1, 1, 0]), np.array([0, 1, 0]), np.array([3, 4, 5]))[0].tolist()
    [0.0, 1.0, 0.0]
    """
    judged, seen = have_choice(keys), targets + more
    counted = judged * (seen > 0)
    return counted, judged * (seen > on_sinks), seen / np.maximum(keys + more, 1) * counted


def of_uniform_entropy(keys: np.ndarray) -> np.ndarray:
    """For each of R rows 1 over the entropy, in nats, of equal weights on all keys that it sees `[R]`."""
    return have_choice(keys) / np.log(np.maximum(keys, 2))


def control_factors(targets: np.ndarray, drawn: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """For each of R rows how many target keys it sees over how many random keys at like distances it sees, `[R]`."""
    return np.divide(targets, drawn, out=np.zeros(len(targets)), where=drawn > 0) * counted
