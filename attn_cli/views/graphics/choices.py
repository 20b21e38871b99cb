"""The ways to show a picture in a terminal, as a person names them in the setting `graphics`."""

PROTOCOLS = ("kitty", "iterm", "sixel")
CHOICES = ("auto", "blocks", *PROTOCOLS)
"""That the terminal is asked, half blocks, or a protocol whatever it says."""
