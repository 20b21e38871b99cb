"""The manual pages `attn.1`, `attn-inspect.1` and so on, made of what --help is made of.

`python -m tests.test_man_pages` writes them into `attn_cli/man`, from where a wheel takes them to `share/man/man1`.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from typer.main import get_command

from attn_cli.cli import app
from attn_cli.cli.kit.shell.commands import COMMANDS, GROUPS, declared_command

FOLDER = Path(__file__).parents[1] / "attn_cli" / "man"
_CODES = "Exit codes:"


def pages() -> dict[str, str]:
    """Every page by its file name."""
    commands = {f"attn-{name.replace(' ', '-')}.1": _page_of(name) for name in COMMANDS}
    return {"attn.1": _front_page(), **commands}


def test_manual_pages_say_what_help_says() -> None:
    made = pages()
    kept = {file.name: file.read_text(encoding="utf-8") for file in FOLDER.glob("*.1")}
    stale = sorted(name for name in made.keys() | kept.keys() if made.get(name) != kept.get(name))
    assert not stale, "run python -m tests.test_man_pages"


def test_no_line_of_a_text_is_a_request() -> None:
    assert _line(".attn of a\\b") == "\\&.attn of a\\eb"
    assert not [
        line for text in pages().values() for line in text.splitlines() if re.match(r"[.'](?![A-Z]|nf|fi)", line)
    ]


def _front_page() -> str:
    group = get_command(app)
    context = group.make_context("attn", ["--help"], resilient_parsing=True)
    parts = [_heading("attn", "look inside any transformer's attention from a terminal")]
    parts += [".SH SYNOPSIS", ".B attn", "[OPTIONS] COMMAND [ARGS]...", ".SH DESCRIPTION", *_prose(str(group.help))]
    parts += [".SH OPTIONS", *_listed(_records(group, context)["Options"])]
    for title, names in GROUPS.items():
        parts.append(f".SH {title.upper()}")
        for name in names:
            parts += [".TP", f".BR attn-{_roff(name.replace(' ', '-'))} (1)", _line(COMMANDS[name])]
    return "\n".join([*parts, *_codes(str(group.epilog or "")), *_see_also(["attn-guide"]), ""])


def _page_of(name: str) -> str:
    command = declared_command(name)
    context = command.make_context(f"attn {name}", [], resilient_parsing=True)
    title = f"attn-{name.replace(' ', '-')}"
    line = COMMANDS[name]
    pieces = " ".join(command.collect_usage_pieces(context))
    parts = [_heading(title, line[0].lower() + line[1:].rstrip("."))]
    parts += [".SH SYNOPSIS", f".B attn {_roff(name)}", _roff(pieces), ".SH DESCRIPTION", *_prose(str(command.help))]
    sections = _records(command, context)
    for section in dict.fromkeys([*(each for each in ("Arguments", "Options") if each in sections), *sections]):
        parts += [f".SH {section.upper()}", *_listed(sections[section])]
    return "\n".join([*parts, *_codes(str(command.epilog or "")), *_see_also(["attn"]), ""])


def _records(command: Any, context: Any) -> dict[str, list[tuple[str, str]]]:
    if hasattr(command, "_sections"):
        sections: dict[str, list[tuple[str, str]]] = command._sections(context)
        return sections
    records = (parameter.get_help_record(context) for parameter in command.get_params(context))
    return {"Options": [record for record in records if record is not None]}


def _heading(title: str, line: str) -> str:
    return f'.TH "{title.upper()}" "1" "" "attn" "attn"\n.SH NAME\n{_roff(title)} \\- {_roff(line)}'


def _prose(text: str) -> Iterator[str]:
    r"""Paragraphs as filled lines; what \b marks, and what ends in a colon and is indented, as it stands."""
    for number, paragraph in enumerate(re.split(r"\n\s*\n", text.replace("\x0c", "").strip())):
        lines = [line for line in paragraph.splitlines() if line.strip() != "\b"]
        kept = len(lines) != len(paragraph.splitlines()) or any(line.startswith(" ") for line in lines[1:])
        if number:
            yield ".PP"
        yield from ([".nf", *map(_line, lines), ".fi"] if kept else map(_line, lines))


def _listed(records: Sequence[tuple[str, str]]) -> Iterator[str]:
    for names, text in records:
        yield from (".TP", f".B {_roff(names)}", _line(" ".join(text.split())))


def _codes(epilog: str) -> Iterator[str]:
    if epilog.strip():
        yield ".SH EXIT STATUS"
        yield from _prose(epilog.replace(_CODES, "").strip("\n"))


def _see_also(names: Sequence[str]) -> list[str]:
    return [".SH SEE ALSO", *(f".BR {_roff(name)} (1)" for name in names)]


def _line(text: str) -> str:
    """A line of text that is no request of roff, whatever it begins with."""
    escaped = _roff(text)
    return f"\\&{escaped}" if escaped[:1] in {".", "'"} else escaped


def _roff(text: str) -> str:
    return text.replace("\\", "\\e").replace("-", "\\-")


def main() -> None:
    """Write all pages, and delete those of commands that are gone."""
    FOLDER.mkdir(exist_ok=True)
    made = pages()
    for file in FOLDER.glob("*.1"):
        if file.name not in made:
            file.unlink()
    for name, text in made.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
