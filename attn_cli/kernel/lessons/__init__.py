"""Lessons computed from the definition, each in a file of its own.

Read `steps` (every array on the way), `scale` (why 1 / sqrt(d)), `decode` (with a cache), `cost`, `mistakes` (each made
on purpose), `structure` (what rounding has none of), `learn` (the gradient by hand).
"""
