"""Sums over documents, shards and machines: the same to the byte in whatever order shards are computed."""
