"""Per-row statistics of attention: the request and its answer (`wanted`), and who computes it.

`of_bands` is the definition, for any call. `compiled` gets the same from compiled code, that of `kernel/cpu` or of
`kernel/gpu` (`compiled`), where one suits, and is held equal to it (tests/kernel/stats); `one_walk` is what one pass of
that code is asked for and notes. `topk` ranks. `packed` makes one request of those of several packed texts; `padded`
answers it by batched products where no compiled code suits.
"""
