"""Tests of what a smaller cache costs."""
