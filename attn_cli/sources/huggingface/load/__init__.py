"""Finding, vetting and loading a model and its tokenizer."""
