"""Attention itself, arrays in, arrays out.

Read `definition` (what attention is), then `walk` (how it is computed a few rows at a time, equal cell by cell), then
`lessons` (what follows from the definition). No model, file or screen is known here.
"""
