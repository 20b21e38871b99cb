"""The run of a command: texts in, reports out."""
