"""Answers that are not read off bands: checks, walks through the steps, comparisons, maps of a model."""
