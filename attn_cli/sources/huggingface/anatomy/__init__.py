"""What a model is made of: where its attention modules are, and what stands in their place elsewhere."""
