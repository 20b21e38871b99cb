"""Walking through a recording in a terminal; only `app` imports Textual."""
