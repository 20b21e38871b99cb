"""What can be said of an attention call without keeping it: reducers read bands and hand over labelled NumPy arrays."""
