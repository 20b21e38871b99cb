"""Per-head statistics: `statistics` lists them, `head_statistics` collects them while a call is walked."""
