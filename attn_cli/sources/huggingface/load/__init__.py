"""Finding, vetting and loading a model and its tokenizer; code of the model runs only if the user allowed it."""
