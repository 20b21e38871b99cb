"""Rotary position embeddings: which columns of a query a layer turned, and by which angles."""
