"""Attention itself, arrays in, arrays out; no model, file or screen is known here.

Read `definition` (what attention is), `bands` (a few rows at a time), `stats` (what is read off its rows), then
`lessons` (what follows from the definition). `cpu` and `gpu` are compiled code.
"""
