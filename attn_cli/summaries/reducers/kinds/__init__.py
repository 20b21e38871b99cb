"""Kinds of heads: the register, the keys that each kind attends to, and the reducer that holds heads against them."""
