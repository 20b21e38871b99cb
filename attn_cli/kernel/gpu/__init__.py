"""Attention in one sweep over the keys on a GPU, with numbers of every row: output, log-sum-exp, moments, largest keys.

`walk` says which calls it takes and what is noted of them, `kernel_call` gives one to the Triton code of `kernels`.
Triton comes with torch's CUDA and ROCm builds; it is imported where a tensor on a GPU is walked, and nowhere else.
`TRITON_INTERPRET=1` runs the kernels without a GPU.
"""
