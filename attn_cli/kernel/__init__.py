"""Attention itself, arrays in, arrays out; read `definition`, `bands`, `stats`, then `lessons`."""
