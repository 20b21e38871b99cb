"""Per-row statistics of attention: `of_bands` defines them, `compiled` and `padded` compute them sooner."""
