"""What commands share: options, reading texts, the run over them, and what is printed on stderr."""
