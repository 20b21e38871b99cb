"""Per-row statistics of attention: the request and its answer (`wanted`), and who computes it.

`of_bands` is the definition, for any call. `compiled` gets the same from compiled code, that of `kernel/cpu` or of
`kernel/gpu` (`at_once`), where one suits, and is held equal to it (tests/kernel/stats); `one_walk` is what one pass of
that code is asked for and notes. `intervals` says which keys its rows see, `topk` ranks. `packed` and `padded` walk the
texts of a batch together.
"""
