"""Parts of a text: where a cut places them, what the rows that matter read of each, and what hiding one changes."""
