"""Attention as the papers define it: dense, readable, the specification that every faster form is tested against.

Read `dense` first (one page: scores, weights, output), then what it is made of: `rule`, `softmax`, `masks`, `bias`,
`heads`. `positions` and `latent` come before q kᵀ.
"""
