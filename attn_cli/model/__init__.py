"""A model without its library: what can be asked of it, what can be changed in it, and its blocks."""
