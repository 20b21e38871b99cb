"""The same attention a few query rows at a time: how it is computed fast, in memory that grows with n.

Read `plan` (what is decided about a call), `bands` (how a plan cuts the call), `band` (what one band is, and what it is
computed from), `passes` (its arithmetic), then what these use: `masked_cells`, `matmul`, `threads`.

`fused` is the way without bands, in compiled code, for readers that need no more than row statistics: `one_walk` says
what it is asked for and notes. `intervals` and `gaps` say which keys its rows see, `compiled_call` lays a call out for
`fused.c`, whose arithmetic stands in `fused_tile.h`. `c_library` finds that code; `c_structs` are its arguments,
`c_threads` run it. `packed` and `padded` walk the texts of a batch side by side; `text_sums` and `strongest_rows` read
what was noted of each.
"""
