"""Lessons computed from the definition, each in a file of its own."""
