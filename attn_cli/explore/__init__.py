"""Walking through a recording in a terminal: heads, a head's matrix, the text, one cell.

Only `app` imports Textual, after the command has seen that there is a terminal.
"""
