"""Read the guide: a tour, a tutorial, the reference."""

import re
import sys
from difflib import get_close_matches
from pathlib import Path
from textwrap import fill

from attn_cli.cli.kit.shell import completion
from attn_cli.cli.kit.shell.signature import argument, takes_options
from attn_cli.errors import InputError
from attn_cli.text import cut
from attn_cli.views.drawing.screen import Screen, screen_of
from attn_cli.views.pager import is_leafed, leaf_through
from attn_cli.views.sink import Sink

_LATER = ("architectures", "errors", "settings", "costs")  # pages that few people begin with
FOLDER = Path(__file__).parents[1] / "guide"


@takes_options
def guide(
    topic: str | None = argument(
        "TOPIC", "Show this page, or without it the list.", autocompletion=completion.one_of(lambda: topics())
    ),
    number: str | None = argument("N", "Show this section alone, of a page whose sections have numbers."),
) -> None:
    """Read the guide: a tour, a tutorial, the reference.

    Without a topic: the list of topics. With any other word: the lines of all pages that contain it. A terminal gets a
    drawn page, a tall one in the pager (PAGER, else less). A pipe gets plain Markdown.

    \b
    Examples:
      attn guide
      attn guide tour
      attn guide ladder 5                 one rung
      attn guide induction                where it is explained
    """
    screen = screen_of(sys.stdout)
    topic, _, within = (topic or "").partition(" ")
    text = _page(topic, number or within, screen) if topic else _contents(screen)
    if is_leafed(text, screen.height):
        leaf_through(text)
    else:
        with Sink(None, instead="attn guide TOPIC > FILE keeps it") as sink:
            sink.write(text.encode("utf-8", "backslashreplace"))


def topics() -> dict[str, str]:
    """The Markdown of all pages of the guide by name; each begins with a title and a summary."""
    return {file.stem: file.read_text("utf-8") for file in sorted(FOLDER.glob("*.md"))}


def _summary(page: str) -> str:
    _, summary, *_ = filter(None, map(str.strip, page.splitlines()))
    return summary


def _contents(screen: Screen) -> str:
    pages = topics()
    indent = max(map(len, pages)) + 4
    summaries = [
        fill(f"  {name:{indent - 2}}{_summary(page)}", max(screen.width, indent + 8), subsequent_indent=" " * indent)
        for name, page in pages.items()
    ]
    last = fill("attn guide TOPIC shows a page, attn guide tour is a start", screen.width)
    return "\n".join([*summaries, "", last, ""])


def _page(name: str, number: str, screen: Screen) -> str:
    texts = topics()
    if name in texts and number:
        texts[name] = _section(name, texts[name], number)
    if name not in texts:
        if found := _search(f"{name} {number}".rstrip(), screen):
            return found
        near = get_close_matches(name, texts, 3)
        hint = f"did you mean {' or '.join(near)}?    all topics: attn guide" if near else f"one of {', '.join(texts)}"
        raise InputError(f"no page is named {cut(name, 60)!r}, and none says it", hint)
    if screen.depth == "none" and not (sys.stdout is not None and sys.stdout.isatty()):
        return texts[name]
    from attn_cli.views.drawing.markdown import draw_markdown  # here: a pipe does without

    return draw_markdown(texts[name], screen)


def _section(name: str, page: str, number: str) -> str:
    sections = re.split(r"^(?=## \d+\. )", page, flags=re.MULTILINE)[1:]
    if not number.isdecimal() or not 1 <= int(number) <= len(sections):
        numbers = f"it has 1 to {len(sections)}" if sections else "its sections have no numbers"
        raise InputError(f"{name} has no section {cut(number, 20)}", numbers)
    at = int(number)
    onwards = f"attn guide {name} {at + 1}" if at < len(sections) else "attn guide models"
    return f"{sections[at - 1].rstrip()}\n\nnext: `{onwards}`\n"


def _search(word: str, screen: Screen) -> str:
    """The lines of all pages that say a word, as page, line number and line, cut to a terminal's width."""
    says = re.compile(rf"(?<!\w){re.escape(word)}s?(?!\w)", re.IGNORECASE)
    called = (word.lower(), f"{word.lower()}s")
    pages = [(name, _summary(text), text) for name, text in topics().items()]
    pages.sort(key=lambda page: (page[0] not in called, not says.search(page[1]), page[0] in _LATER))
    found: list[str] = []
    for name, summary, text in pages:
        numbered = [*enumerate(map(str.strip, text.splitlines()), 1)]
        lines = [(number, line) for number, line in numbered if says.search(line)]
        if not lines and name in called:
            lines = [(number, line) for number, line in numbered if line == summary][:1]
        found += [f"{name}:{number}: {line}" for number, line in lines]
    if screen.height is not None:
        found = [line if len(line) <= screen.width else f"{line[: screen.width - 1].rstrip()}…" for line in found]
    return "".join(f"{line}\n" for line in found)
