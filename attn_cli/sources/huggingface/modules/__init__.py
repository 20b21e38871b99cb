"""Torch modules of other libraries as sources: built by name, read from arrays or an image."""
