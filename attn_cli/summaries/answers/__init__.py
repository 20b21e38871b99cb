"""Answers that are not computed band by band: checks, walks through the steps, comparisons, maps of a model."""
