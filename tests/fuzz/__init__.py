"""`python -m tests.fuzz`: spoilt files for the command line, which reads each or refuses it in a line."""
