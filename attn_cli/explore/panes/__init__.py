"""The explorer's panes, drawn as lines of segments: each file draws one, and none of them knows Textual."""
