"""The same attention a few query rows at a time: how it is computed fast, in memory that grows with n.

Read `plan` (what is decided about a call), `bands` (how a plan cuts the call), `band` (what one band is, and what it is
computed from), `passes` (its arithmetic), then what these use: `masked_cells`, `matmul`, `threads`.

`fused` is the way without bands, in compiled code: for readers that need no more than `row_numbers`. `intervals`
and `gaps` say which keys its rows see, `compiled` calls `fused.c`, whose arithmetic stands in `fused_tile.h`.
"""
