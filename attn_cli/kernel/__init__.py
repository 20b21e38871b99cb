"""Attention itself, arrays in, arrays out.

Read `definition` (what attention is), `bands` (how it is computed a few rows at a time, equal cell by cell), `stats`
(what is read off its rows, by bands or by the compiled code in `cpu` and `gpu`), then `lessons` (what follows from the
definition). No model, file or screen is known here.
"""
