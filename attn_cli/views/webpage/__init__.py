"""The interactive page: a recording as one file with a script of its own, which needs no library and no network."""
