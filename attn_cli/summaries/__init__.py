"""Summaries of attention calls: reducers read bands as they pass and return labelled NumPy arrays."""
