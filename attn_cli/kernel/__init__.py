"""Attention itself, arrays in and arrays out: the definition (dense) and the same numbers a few rows at a time (bands)."""
