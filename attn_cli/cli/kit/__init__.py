"""What commands are made of: options, texts, the run over them, and what is said on stderr."""
