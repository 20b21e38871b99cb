"""Calls derived from other calls: without special tokens, in words, on an image's grid."""
