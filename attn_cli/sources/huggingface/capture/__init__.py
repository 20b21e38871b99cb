"""Seeing a model's attention in its own forward pass."""
