"""The sentences of an overview: each has its number, and is left out where the number is too small."""
