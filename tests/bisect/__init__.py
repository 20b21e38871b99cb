"""Dumps by plain NumPy implementations of models, with mistakes in them, for `attn bisect`."""
