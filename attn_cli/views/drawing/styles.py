"""The styles that screens have in common."""

from rich.style import Style

BOLD, DIM, PLAIN = Style(bold=True), Style(dim=True), Style.null()
