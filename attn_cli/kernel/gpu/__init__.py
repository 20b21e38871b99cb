"""Attention in one sweep over the keys on a GPU, with numbers of every row; `TRITON_INTERPRET=1` needs no GPU."""
