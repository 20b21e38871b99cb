"""Finding, vetting and loading a model and its tokenizer: nothing runs that the user didn't allow."""
