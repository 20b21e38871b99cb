"""Per-row statistics of attention: the request and its answer (`wanted`), and who computes it.

`of_bands` is the definition, for any call. `compiled` gets the same from the code of `kernel/cpu` or `kernel/gpu`,
where one suits. `packed` joins the requests of packed texts; `padded` answers them where no compiled code suits.
"""
