"""Attention a few query rows at a time, in memory that grows with n; equal to the definition cell by cell.

Read `plan` (what is decided about a call), `bands` (how a plan cuts the call), `band` (what one band is), `passes` (its
arithmetic).
"""
