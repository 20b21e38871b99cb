"""Walking through a recording in a terminal: heads, a head's matrix, the text, one cell.

Textual is imported in `app` alone, which the command imports after it has seen that there is a terminal.
"""
