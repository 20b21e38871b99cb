"""The explorer's panes as lines of segments, which know no Textual."""
