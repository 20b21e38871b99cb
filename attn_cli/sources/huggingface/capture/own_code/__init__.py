"""Attention in a model's own code, outside of the registry: seen as a softmax, an SDPA call or returned weights."""
