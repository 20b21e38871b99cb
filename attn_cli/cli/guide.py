"""Read the guide: a tour, a tutorial, the reference."""

import re
import sys
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from textwrap import fill
from typing import Annotated, NamedTuple

import typer

from attn_cli.cli.kit import options as o
from attn_cli.cli.kit.pager import is_leafed, leaf_through
from attn_cli.errors import ExitCode, InputError
from attn_cli.text import cut
from attn_cli.views.drawing.screen import Screen, screen_of
from attn_cli.views.sink import Sink

_LATER = ("working", "changes", "architectures", "errors", "settings", "costs")  # pages that few people begin with
_OTHER_NAMES = {  # what people look for that a page has under another name
    "tutorial": "ladder", "start": "tour", "introduction": "tour", "prompt": "parts", "notebook": "python",
    "jupyter": "python", "kernel": "matrices", "config": "settings", "json": "formats", "csv": "formats",
}  # fmt: skip
FOLDER = Path(__file__).parents[1] / "guide"


class Topic(NamedTuple):
    """A page: its name, the Markdown file, and the line under the page's title."""

    name: str
    file: Path
    summary: str


def guide(
    topic: Annotated[str | None, typer.Argument(help="Show this page; without it, the list.", metavar="TOPIC")] = None,
    color: o.Color = "auto",
) -> ExitCode:
    """Read the guide: a tour, a tutorial, the reference.

    Without a topic: the list of topics. With any other word: the lines of all pages that contain it. A terminal gets a
    drawn page, in the pager (PAGER, else less) if it is taller than the screen; a pipe gets plain Markdown.

    \b
    Examples:
      attn guide
      attn guide tour
      attn guide induction                where it is explained
      attn guide ladder --color always | less -R
    """
    screen = screen_of(sys.stdout, color)
    text = _contents(screen) if topic is None else _page(topic, screen)
    if is_leafed(text, screen.height):
        leaf_through(text)
        return ExitCode.DONE
    with Sink(None, instead="attn guide TOPIC > FILE keeps it") as sink:
        sink.write(text.encode("utf-8", "backslashreplace"))
    return ExitCode.DONE


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
        if found := _search(name, screen, whole=bool(near)):
            return found
        hint = f"did you mean {' or '.join(near)}?    all topics: attn guide" if near else f"one of {', '.join(files)}"
        raise InputError(f"no page is named {cut(name, 60)!r}, and none says it", hint)
    text = files[name].read_text("utf-8")
    terminal = sys.stdout is not None and sys.stdout.isatty()
    if not terminal and screen.depth == "none":
        return text
    # imported here: the list of topics and a pipe do not need it
    from attn_cli.views.drawing.markdown import draw_markdown

    return draw_markdown(text, screen)


def _search(word: str, screen: Screen, *, whole: bool) -> str:
    """The lines of all pages with a word, each after its page's name; on a terminal the first of every page.

    Pages of that name come first, then the page that says it most, and those that few people begin with last. With
    `whole` nothing where no page has it but inside of other words.
    """
    said: list[tuple[Topic, list[str]]] = []
    for page in topics():
        lines = [line for line in _prose(page.file.read_text("utf-8")) if word.lower() in line.lower()]
        said += [(page, lines or [page.summary])] if lines or _is_about(page, word) else []
    if whole and not any(
        re.search(rf"\b{re.escape(word)}\b", line, re.IGNORECASE) for _, each in said for line in each
    ):
        return ""
    said.sort(key=lambda each: (not _is_about(each[0], word), each[0].name in _LATER, -len(each[1])))
    if screen.height is None:
        return _listed(said, word, screen.width, sys.maxsize)
    said = [each for each in said if each[0].name not in _LATER] or said
    texts = (_listed(said, word, screen.width, most) for most in (3, 2, 1))
    shortest = _listed(said[: screen.height // 2 - 1], word, screen.width, 1)
    shown = next((text for text in texts if text.count("\n") + 2 <= screen.height), shortest)
    return f"{shown}\nattn guide {said[0][0].name}: the first of them\n" if said else ""


def _listed(said: Sequence[tuple[Topic, Sequence[str]]], word: str, width: int, most: int) -> str:
    """The pages, each with up to `most` of its lines; those that stand for a page say how many more it has."""
    found: list[str] = []
    for page, lines in said:
        more = f" · {len(lines) - most} more" if most < len(lines) else ""
        more += f": attn guide {page.name}" if more and len(more) + 2 * len(page.name) + 13 <= width else ""
        found += [f"{page.name}{more}", *(f"  {_around(word, line, width - 2)}" for line in lines[:most])]
    return "".join(f"{line}\n" for line in found)


def _is_about(page: Topic, word: str) -> bool:
    """Whether a page's name or summary is the word: "sink" of sinks, "tutorial" of the ladder."""
    return page.name in (word.lower(), f"{word.lower()}s", _OTHER_NAMES.get(word.lower())) or (
        word.lower() in re.findall(r"\w+", page.summary.lower())
    )


def _prose(text: str) -> Iterator[str]:
    """The paragraphs, headings and rows of tables of Markdown as a line each; not what is typed or printed."""
    for number, block in enumerate(re.split(r"^```.*$", text, flags=re.MULTILINE)):
        if number % 2 == 0:
            for paragraph in re.split(r"\n(?:\s*\n|(?=\s*[-#|]))", block):
                yield re.sub(r"\[([^]]*)\]\([^)]*\)|[*`#]", r"\1", " ".join(paragraph.split())).strip(" -|")


def _around(word: str, line: str, width: int) -> str:
    """A line, cut between words to what stands around a word of it.

    >>> _around("sink", "a key that takes weight is a sink, and a sink is the first key", 34)
    '… weight is a sink, and a sink …'
    """
    if len(line) <= width:
        return line
    words, room = line.split(" "), width - 4
    first = last = next(at for at, each in enumerate(words) if word.lower().split(" ")[0] in each.lower())
    length = len(words[first])
    while length < room:
        before, after = (
            len(words[first - 1]) if first else room,
            len(words[last + 1]) if last + 1 < len(words) else room,
        )
        if min(length + 1 + before, length + 1 + after) > room:
            break
        if (length + 1 + before <= room and (last - first) % 2 == 0) or length + 1 + after > room:
            first, length = first - 1, length + 1 + before
        else:
            last, length = last + 1, length + 1 + after
    return f"{'… ' * (first > 0)}{' '.join(words[first : last + 1])}{' …' * (last + 1 < len(words))}"
