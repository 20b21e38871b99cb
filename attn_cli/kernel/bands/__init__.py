"""Attention a few query rows at a time, in memory that grows with n; equal to the definition cell by cell.

Read `plan` (what is decided about a call), `bands` (how a plan cuts the call), `band` (what one band is, and what it is
computed from), `passes` (its arithmetic), then what these use: `masked_cells`, `threads`. Readers of bands
use `picked_rows` and `blocks`.
"""
