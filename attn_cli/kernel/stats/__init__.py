"""Per-row statistics of attention: `of_bands` defines them, `kernel.cpu` computes them sooner."""
