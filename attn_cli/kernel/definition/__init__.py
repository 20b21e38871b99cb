"""Attention as the papers define it: dense, readable, the specification that every faster form is tested against.

Read `dense` first (one page: scores, weights, output), then what it is made of: `rule` (what happens between q kᵀ and
the weights), `softmax`, `masks`, `bias`, `heads`. `positions` and
`latent` come before q kᵀ: rotary and sinusoidal positions, and keys and values made from one short vector per token.
"""
