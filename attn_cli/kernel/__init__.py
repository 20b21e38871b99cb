"""Attention itself, arrays in, arrays out: the definition (dense), and the same a few rows at a time (bands)."""
