"""What an overview tells of a text in sentences: each has its number, and is left out where the number is too small."""
