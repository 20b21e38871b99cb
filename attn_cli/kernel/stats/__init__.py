"""Per-row statistics of attention: the request and its answer (`wanted`), and who computes it.

`of_bands` is the definition, for any call. `compiled` gets the same from the compiled code of `kernel/walk` and
`kernel/gpu`, where one suits, and is held equal to it (tests/kernel/stats). `topk` ranks.
"""
