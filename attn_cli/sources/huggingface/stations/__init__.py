"""The stations of a model's pass: where they are, their numbers as they come, with rounding or mistakes on purpose."""
