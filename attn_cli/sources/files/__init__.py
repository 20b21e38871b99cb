"""Readers of files: a user's matrix (`array_file`), JSON, archives, tensors, texts; sizes are checked first."""
