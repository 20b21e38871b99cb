"""What a smaller KV cache costs: single effects, plans made of them, and the plans run whole."""
