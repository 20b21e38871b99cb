"""Attention in one sweep over the keys on a GPU, with numbers of every row: output, log-sum-exp, moments, largest keys.

Triton comes with torch's CUDA and ROCm builds; it is imported where a tensor on a GPU is walked, and nowhere else.
`TRITON_INTERPRET=1` runs the kernels without a GPU.
"""
