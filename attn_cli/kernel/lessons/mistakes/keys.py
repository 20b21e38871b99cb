"""Keys that stand in another place than their values, or were read in another order."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from attn_cli.kernel.lessons.mistakes.problem import AttendedTo, Mistake, Problem, attended, attending


def key_mistakes(problem: Problem) -> Iterator[Mistake]:
    """Wrong implementations: k reshaped, not transposed; k or v shifted by one place; k and v in each other's place."""
    q, k, v, rule = problem.q, problem.k, problem.v, problem.rule
    m, d = k.shape[-2:]
    if min(m, d) > 1:
        yield attending("keys-reshaped", "k was reshaped where it must be transposed",
                        lambda: AttendedTo(q, k.reshape(len(k), d, m).swapaxes(-1, -2), v, rule))  # fmt: skip
    if m > 1:
        for step, words in ((1, "one place too late: key j holds key j - 1"),
                            (-1, "one place too early: key j holds key j + 1")):  # fmt: skip
            yield attending(
                f"keys-shifted{step:+}",
                f"keys stand {words}",
                partial(lambda by: AttendedTo(q, np.roll(k, by, -2), v, rule), step),
            )
            yield attending(f"values-shifted{step:+}", f"values stand {words.replace('key', 'value')}",
                            partial(lambda by: AttendedTo(q, k, np.roll(v, by, -2), rule), step))  # fmt: skip
    if k.shape == v.shape and not np.array_equal(k, v):
        yield attended("keys-as-values", "k was used in place of v", q, k, k, rule)
        yield attended("values-as-keys", "v was used in place of k", q, v, v, rule)
        yield attended("keys-and-values-swapped", "k and v are in each other's place", q, v, k, rule)
