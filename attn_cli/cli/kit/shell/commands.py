"""The commands: every module of `attn_cli.cli` is one, imported when it is called, not for `attn --help`."""

import shutil
import sys
import textwrap
from collections.abc import Iterable
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from attn_cli.errors import InputError
from attn_cli.text import cut
from attn_cli.views.pager import is_leafed, leaf_through
from attn_cli.views.shell_words import quoted


def coerce_plainly(parameters: Iterable[Any]) -> None:
    """Change parameters of Click so that they take plainly valid values as they are; others still go to Typer."""
    for parameter in parameters:
        if hasattr(parameter, "type_descriptor"):
            parameter.process_value = partial(_process_value, parameter, parameter.process_value)


def _process_value(parameter: Any, by_typer: Any, context: Any, value: Any) -> Any:
    kind = parameter.type_descriptor.annotation
    if value is None and not parameter.required:
        value = () if parameter.multiple or parameter.nargs == -1 else None
    elif kind == list[str] and isinstance(value, list | tuple) and value:
        value = list(value)
    elif type(value) is not kind and not (get_origin(kind) is Literal and value in get_args(kind)):
        return by_typer(context, value)
    return value if parameter.callback is None else parameter.callback(context, parameter, value)


GROUPS = {  # of --help, in its order; a command that none names is of the last
    "Look": ("inspect", "explore", "matrix", "top", "heads", "layers"),
    "Explain": ("parts", "knock", "why", "compare"),
    "Your own numbers": ("compute",),
    "Corpus": ("scan", "scan show"),
    "Learn": ("plane", "nearest", "learn", "scale", "cost"),
    "Help": ("guide", "schema", "env"),
}
_FIRST = tuple(name for names in GROUPS.values() for name in names)


def help_lines(folder: Path) -> dict[str, str]:
    """The commands in a folder by name, each with its help line: the first line of its module's docstring."""
    files = {file.stem.replace("_", " "): file for file in folder.glob("[!_]*.py")}
    names = sorted(files, key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name))
    return {name: _first_line(files[name]) for name in names}


def _first_line(file: Path) -> str:
    with file.open(encoding="utf-8") as lines:
        return lines.readline().strip().strip('"')


COMMANDS = help_lines(Path(__file__).parents[2])


def help_width() -> dict[str, int]:
    """The keyword argument `terminal_width` of a Click context on a terminal below 52 columns; {} on wider ones."""
    columns = shutil.get_terminal_size().columns
    return {"terminal_width": columns} if columns < 52 else {}


class GroupedHelp(TyperCommand):
    """A command whose --help lists the common options first, then those of each group."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Click's context in which `args` are parsed, with a narrow terminal's width for --help."""
        return super().make_context(info_name, args, parent, **help_width() | extra)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse a command line; returns the words that no parameter takes, while a shell completes it."""
        coerce_plainly(self.get_params(ctx))
        left: list[str] = super().parse_args(ctx, args)
        return left

    def get_help(self, ctx: Any) -> str:
        """The text of --help; on a terminal that it is taller than, it is shown in the pager and typer.Exit raised."""
        return _leafed(super().get_help(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words after the name in `Usage:`, with [ ] around an argument that may be missing."""
        arguments = [each for each in self.get_params(ctx) if each.param_type_name == "argument"]
        return ["[OPTIONS]", *(_named(each) if each.required else f"[{_named(each)}]" for each in arguments)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write to `formatter` the arguments, the options without a group, and a section for every group."""
        sections = self._sections(ctx)
        first = [title for title in ("Arguments", "Options") if title in sections]
        for title in dict.fromkeys([*first, *sections]):
            with formatter.section(title):
                formatter.write_dl(sections[title])

    def _sections(self, ctx: Any) -> dict[str, list[tuple[str, str]]]:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                is_argument = parameter.param_type_name == "argument"
                title = "Arguments" if is_argument else getattr(parameter, "rich_help_panel", None) or "Options"
                record = (_named(parameter), record[1]) if is_argument else record
                sections.setdefault(title, []).append(record)
        return sections


def _leafed(text: str) -> str:
    height = shutil.get_terminal_size().lines - 1 if sys.stdout is not None and sys.stdout.isatty() else None
    if is_leafed(text, height):
        leaf_through(f"{text}\n")
        raise typer.Exit
    return text


def _named(argument: Any) -> str:
    return f"{argument.metavar}{'...' if argument.nargs == -1 else ''}"


def imported_command(name: str) -> Any:
    """The Click command of that name, its module imported."""
    function = name.replace(" ", "_")
    alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    alone.command(name, cls=GroupedHelp)(getattr(import_module(f"attn_cli.cli.{function}"), function))
    return get_command(alone)


class Commands(TyperGroup):
    """A Typer group of placeholder commands with help lines; it imports a command's module when that is called."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Click's context in which `args` are parsed, with a narrow terminal's width for --help."""
        return super().make_context(info_name, args, parent, **help_width() | extra)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options that stand before a command's name; returns the words after them."""
        coerce_plainly(self.get_params(ctx))
        left: list[str] = super().parse_args(ctx, args)
        return left

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name, whose module is imported; None where there is none."""
        return None if super().get_command(ctx, cmd_name) is None else imported_command(cmd_name)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """The commands that begin so, by their names alone: no module is imported for them."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        from click.shell_completion import CompletionItem

        return [CompletionItem(name, help=line) for name, line in COMMANDS.items() if name.startswith(incomplete)]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the first two words name, or the first; InputError where none is."""
        if " ".join(args[:2]) in self.commands:
            args = [" ".join(args[:2]), *args[2:]]
        if args[0] in self.commands or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        name = cut(args[0], 60)
        near = get_close_matches(args[0], self.commands, 1)
        line = f"did you mean {near[0]}?" if near else f"try: attn inspect {quoted(name)}"
        raise InputError(f"no command {name!r}", f"{line}    all commands: attn --help")

    def get_help(self, ctx: Any) -> str:
        """The text of --help; on a terminal that it is taller than, it is shown in the pager and typer.Exit raised."""
        return _leafed(super().get_help(ctx))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write to `formatter` the commands by groups, each with its whole line of help, all lines in one column."""
        width = max(map(len, COMMANDS))
        last = [*GROUPS][-1]
        for title, names in GROUPS.items():
            others = [name for name in COMMANDS if name not in _FIRST] if title == last else []
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", COMMANDS[name]) for name in (*names, *others)])


_EXAMPLES = (
    ('attn inspect "he sat on the river bank"', "a table of words, built in"),
    ('attn inspect "The capital of France is" -m gpt2', "what comes next, and why"),
    ('attn explore "river bank" -m gpt2', "walk around in a model"),
    ("attn guide tour", "begin here"),
    ("attn --help", "all commands"),
)


def first_page(width: int) -> str:
    """The lines that `attn` alone prints, of at most `width` columns: what it is, and commands to begin with."""
    longest = max(len(example) for example, _ in _EXAMPLES)
    wide = width >= longest + 29
    title = textwrap.wrap("Look inside any transformer's attention from a terminal.", width)
    return "\n".join([*title, *(f"  {example:{longest}}  {words}" if wide else f"  {example}"[:width]
                                for example, words in _EXAMPLES)])  # fmt: skip


def declare(app: typer.Typer) -> None:
    """Add a placeholder for every command to `app`, whose group class must be `Commands`."""
    for name, line in COMMANDS.items():
        app.command(name, help=line)(lambda: None)
