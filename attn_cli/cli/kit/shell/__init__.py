"""The shell around Typer: commands, their help, settings, completion, and errors of usage."""
