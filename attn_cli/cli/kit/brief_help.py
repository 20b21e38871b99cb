"""What `attn COMMAND -h` shows: a command's line, two examples and its common options, on one screen."""

import re
import textwrap
from collections.abc import Sequence

_ROWS = 23  # of a terminal of 24, whose last one has the prompt
_EXAMPLES = 2


def brief_help(command: str, words: str, options: Sequence[tuple[str, str]], width: int) -> str:
    """The screen of a command, in lines of at most `width` columns.

    command  "attn top"
    words    its docstring: a line, paragraphs, and examples after "Examples:"
    options  each common option and its help
    """
    summary = " ".join(words.partition("\n\n")[0].split())
    examples = examples_of(command, words)[:_EXAMPLES]
    head = [*textwrap.wrap(summary, width), "", *(f"  {_cut(example, width - 2)}" for example in examples), ""]
    own = [option for option in options if not option[0].startswith("-h,")]
    shown, left = _most_common(own, _ROWS - len(head) - 2)
    column = max((len(_indented(name)) for name, _ in shown), default=0) + 4
    lines = [f"  {_indented(name):{column - 4}}  {_clause(text, width - column)}" for name, text in shown]
    if left:
        lines.append(_cut(f"also {' '.join(left)}", width))
    return "\n".join([*head, *lines, _cut(f"{command} --help: all of it", width)]) + "\n"


def _most_common(options: Sequence[tuple[str, str]], rows: int) -> tuple[list[tuple[str, str]], list[str]]:
    """The options that so many rows show, in their order, first those with a letter; and the names of the others."""
    ranked = sorted(options, key=lambda option: not _has_letter(option[0]))[:rows]
    return [option for option in options if option in ranked], [
        re.findall(r"--[\w-]+", name)[0] for name, text in options if (name, text) not in ranked
    ]


def _has_letter(names: str) -> bool:
    return re.match(r"-\w\b", names) is not None


def _indented(names: str) -> str:
    """The names of an option, with long ones below each other.

    >>> _indented("--words")
    '    --words'
    """
    return names if _has_letter(names) else f"    {names}"


def _clause(text: str, width: int) -> str:
    """As much of a help as fits: its first sentence without the default, or up to a colon or comma in it.

    >>> _clause("Merge the pieces of words: weights on a word add up.", 40)
    'Merge the pieces of words'
    >>> _clause("toy, a table file, a folder, or a name; see models.  [default: toy]", 24)
    'toy, a table file …'
    """
    sentence = re.split(r"[.;](?: |$)", text.partition("  [")[0], maxsplit=1)[0]
    if len(sentence) <= width:
        return sentence
    begin = sentence[: width + 1]
    colon, more = begin.rfind(": "), max(begin[:-2].rfind(", "), begin[:-1].rfind(" ("))
    return sentence[:colon] if colon > 0 else f"{sentence[:more]} …" if more > 0 else _cut(sentence, width)


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1].rstrip(" ,") + "…"


def examples_of(command: str, words: str) -> list[str]:
    """The lines of a docstring, after "Examples:", that call the command."""
    return re.findall(rf"^ *(.*{command} .*)", words.partition("Examples:")[2], re.MULTILINE)
