"""What a model generates after a text, read together with the text."""
