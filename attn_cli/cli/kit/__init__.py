"""Parts that commands share: the shell around Typer, options, the run over texts, and lines on stderr."""
