"""One-line functions for notebooks: what commands answer, as objects that show themselves."""
