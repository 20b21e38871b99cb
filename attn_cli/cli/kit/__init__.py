"""What commands share: the shell around Typer, options, the run over texts, and what is printed on stderr."""
