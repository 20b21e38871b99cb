"""Generating text after a prompt, to be read together with it."""
