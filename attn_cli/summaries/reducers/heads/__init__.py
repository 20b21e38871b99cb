"""Per-head statistics: what each head does, in a handful of numbers, one statistic a file."""
