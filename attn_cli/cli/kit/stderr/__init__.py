"""Output on stderr: lines, status, progress."""
