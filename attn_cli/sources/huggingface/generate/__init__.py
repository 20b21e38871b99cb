"""What a model writes after a text, read with the rest."""
