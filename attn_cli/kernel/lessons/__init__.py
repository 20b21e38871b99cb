"""Lessons computed from the definition.

Read `steps` (every array on the way), `scale` (why 1 / sqrt(d)), `decode` (one query at a time, with a cache), `cost`
(multiplications and kept numbers), `mistakes` (the register of usual ones, each made on purpose), `structure` (what
rounding has none of), `learn` (the gradient by hand).
"""
