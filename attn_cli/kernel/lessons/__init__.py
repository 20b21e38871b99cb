"""Lessons computed from the definition.

Read `steps` (every array on the way), `scale` (why 1 / sqrt(d)), `decode` (one query at a time, with a cache), `cost`
(multiplications and kept numbers), `mistakes` and `rotary_mistakes` (the usual ones, made on purpose), `learn` (the
gradient by hand).
"""
