"""What surrounds Typer: commands, their help, settings, completion, and errors of usage."""
