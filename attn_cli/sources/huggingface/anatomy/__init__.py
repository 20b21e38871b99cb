"""The parts of a model: where its attention modules are, which did not run, what other blocks have in their place."""
