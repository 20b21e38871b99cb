"""Pages to read: a tour, a tutorial, the reference."""

import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from textwrap import fill
from typing import Annotated, NamedTuple

import typer

from attn_cli.cli.kit import options as o
from attn_cli.errors import ExitCode, InputError
from attn_cli.interrupts import kept
from attn_cli.text import cut
from attn_cli.views.drawing.screen import Screen, screen_of
from attn_cli.views.sink import Sink

_LATER = ("working", "changes", "architectures", "errors", "settings", "costs")  # pages that few people begin with
_MOST_LINES = 3  # of each page that says a word, on a terminal
FOLDER = Path(__file__).parents[1] / "guide"


class Topic(NamedTuple):
    """A page: its name, the Markdown file, and the line under the page's title."""

    name: str
    file: Path
    summary: str


def guide(
    topic: Annotated[str | None, typer.Argument(help="A page; without it, the list.", metavar="TOPIC")] = None,
    color: o.Color = "auto",
) -> ExitCode:
    """Pages to read: a tour, a tutorial, the reference.

    Without a topic, the list of topics; with another word, the lines of all pages that say it. A terminal gets a drawn
    page, in the pager (PAGER, else less) where it is taller than the screen; a pipe gets plain Markdown.

    \b
    Examples:
      attn guide
      attn guide tour
      attn guide induction                where it is explained
      attn guide ladder --color always | less -R
    """
    o.one_of(color, o.COLOR_CHOICES, "--color")
    screen = screen_of(sys.stdout, color)
    text = _contents(screen) if topic is None else _page(topic, screen)
    if screen.height is not None and text.count("\n") > screen.height and sys.stdin is not None and sys.stdin.isatty():
        _leaf_through(text)
        return ExitCode.DONE
    with Sink(None, instead="attn guide TOPIC > FILE keeps it") as sink:
        sink.write(text.encode("utf-8", "backslashreplace"))
    return ExitCode.DONE


def _leaf_through(text: str) -> None:
    """Show a text in the person's pager, which has Ctrl-C for itself; without a pager, or in TERM=dumb, as it is."""
    import pydoc  # here: the other ways need none

    os.environ.setdefault("LESS", "FRX")  # colours, no page of its own, and the text stays on the screen
    with kept([]):
        pydoc.pager(text)


def topics() -> list[Topic]:
    """All pages by name: every Markdown file of the folder, whose first two paragraphs are a title and a summary."""
    return [_topic(file) for file in sorted(FOLDER.glob("*.md"))]


def _topic(file: Path) -> Topic:
    with file.open(encoding="utf-8") as lines:
        paragraphs = [line.strip() for line in (next(lines), next(lines), next(lines)) if line.strip()]
    return Topic(file.stem, file, paragraphs[1])


def _contents(screen: Screen) -> str:
    """Every topic with its summary, and where to start; on a low terminal a line each, and some by name alone."""
    pages = topics()
    last = fill("attn guide TOPIC shows a page; attn guide tour is a start", screen.width)
    text = "\n".join([*_summaries(pages, screen.width), "", last, ""])
    for by_name in range(len(pages)):
        if screen.height is None or text.count("\n") <= screen.height:
            break
        text = "\n".join([*_short_summaries(pages, by_name, screen.width), "", last, ""])
    return text


def _summaries(pages: Sequence[Topic], width: int) -> list[str]:
    """The name and the summary of every page, wrapped."""
    indent = max(len(page.name) for page in pages) + 4
    return [_hanging(page.name, page.summary, indent, max(width, indent + 8)) for page in pages]


def _short_summaries(pages: Sequence[Topic], by_name: int, width: int) -> list[str]:
    """A line for every page but `by_name` of them, whose names stand in a paragraph below."""
    order = sorted(pages, key=lambda page: _LATER.index(page.name) if page.name in _LATER else len(_LATER))
    others = sorted(page.name for page in order[:by_name])
    indent = max(len(page.name) for page in pages) + 4
    lines = [
        _in_one_line(f"  {page.name:{indent - 2}}{page.summary}", width) for page in pages if page.name not in others
    ]
    return [*lines, _hanging("also", ", ".join(others), indent, width)] if others else lines


def _in_one_line(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1].rstrip()}…"


def _hanging(name: str, words: str, indent: int, width: int) -> str:
    return fill(f"  {name:{indent - 2}}{words}", width, subsequent_indent=" " * indent)


def _page(name: str, screen: Screen) -> str:
    """The page called `name`: drawn for a terminal or with colour, else as Markdown.

    For a name that no page has, the lines that say the word; InputError where no page does.
    """
    files = {page.name: page.file for page in topics()}
    if name not in files:
        near = get_close_matches(name, files, 3)
        if not near and (found := _search(name, screen)):
            return found
        hint = f"did you mean {' or '.join(near)}?    all topics: attn guide" if near else f"one of {', '.join(files)}"
        raise InputError(f"no page is named {cut(name, 60)!r}", hint)
    text = files[name].read_text("utf-8")
    terminal = sys.stdout is not None and sys.stdout.isatty()
    if not terminal and screen.depth == "none":
        return text
    # imported here: the list of topics and a pipe do not need it
    from attn_cli.views.drawing.markdown import draw_markdown

    return draw_markdown(text, screen)


def _search(word: str, screen: Screen) -> str:
    """The lines of all pages with a word, each after its page's name; on a terminal the first of every page.

    The page that says it most comes first, and those that few people begin with last.
    """
    from attn_cli.views.drawing.cells import fit  # here: it loads NumPy

    said: list[tuple[str, list[str]]] = []
    for page in topics():
        lines = [line.strip() for line in page.file.read_text("utf-8").splitlines() if word.lower() in line.lower()]
        said += [(page.name, lines)] if lines else []
    found: list[str] = []
    for name, lines in sorted(said, key=lambda page: (page[0] in _LATER, -len(page[1]))):
        shown = lines if screen.height is None else lines[:_MOST_LINES]
        more = [f"  … {len(lines) - len(shown)} more: attn guide {name}"] if len(shown) < len(lines) else []
        found += [name, *(fit(f"  {line}", screen.width).rstrip() for line in shown), *more]
    return "".join(f"{line}\n" for line in found)
