"""Markdown on a screen: what `attn guide` draws."""

from typing import ClassVar

from rich.cells import chop_cells
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown
from rich.style import Style
from rich.text import Text
from rich.theme import Theme

from attn_cli.views.drawing.cells import PLAIN
from attn_cli.views.drawing.console import printed
from attn_cli.views.drawing.screen import Screen

_COMMAND = Style(bold=True)
_THEME = Theme(  # no backgrounds: they are made for dark terminals only
    {
        "markdown.h1": "bold",
        "markdown.h2": "bold",
        "markdown.h3": "bold",
        "markdown.code": "cyan",
        "markdown.table.border": "dim",
        "markdown.table.header": "bold",
    }
)


class _Heading(Heading):
    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from super().__rich_console__(console, options)
        if self.tag == "h1":
            yield Text("─" * min(self.text.cell_len, options.max_width), style="dim")


class _Code(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in str(self.text).rstrip().split("\n"):
            style = _COMMAND if line.startswith(("$ ", ">>> ", "... ")) else PLAIN
            for piece in chop_cells(line, options.max_width) or [""]:
                yield Text(piece, style)


class _Page(Markdown):
    elements: ClassVar = {**Markdown.elements, "heading_open": _Heading, "fence": _Code, "code_block": _Code}


def draw_markdown(text: str, screen: Screen) -> str:
    """Markdown as a screen shows it, with escape codes if the screen has colours; without, `code` keeps its marks."""
    page = _Page(text, hyperlinks=False)
    if screen.depth == "none":
        for token in page.parsed:
            for inline in token.children or ():
                if inline.type == "code_inline":
                    inline.content = f"`{inline.content}`"
    return printed([page], screen, _THEME)
