"""Numbers of every document and head: targets of kinds, which rows count, means over them, and the strongest cells."""
