"""Scans: what every head of a model does over a whole corpus, kept in a folder of tables."""
