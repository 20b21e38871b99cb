"""attn bisect: a dump's arrays placed at a model's stations, the first that differs, and the mistake that makes it."""
