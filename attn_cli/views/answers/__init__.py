"""How each answer is drawn for a person, in a file with the answer's name."""
