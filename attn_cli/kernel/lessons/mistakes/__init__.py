"""Usual mistakes in attention kernels, in families, each made on purpose; `register` lists the families."""
