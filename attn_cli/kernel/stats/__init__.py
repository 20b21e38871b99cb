"""Per-row statistics of attention: the request (`wanted`), the answer, and who computes it."""
