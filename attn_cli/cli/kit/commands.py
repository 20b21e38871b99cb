"""The commands: every module of `attn_cli.cli` is one, imported when it is called, not for `attn --help`."""

from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from attn_cli.cli.kit.shell_words import beginning, command_words
from attn_cli.errors import InputError

_FIRST = (  # the order in --help; other commands follow in alphabetical order
    "inspect", "matrix", "top", "heads", "knock", "parts", "layers", "compare", "plane", "learn", "nearest", "compute",
    "cost", "scale", "guide", "schema",
)  # fmt: skip


def help_lines(folder: Path) -> dict[str, str]:
    """The commands in a folder by name, each with its help line: the first line of its module's docstring.

    Modules are read, not imported. Those whose name begins with _ and subfolders are not commands.
    """
    files = {file.stem: file for file in folder.glob("[!_]*.py")}
    names = sorted(files, key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name))
    return {name: _first_line(files[name]) for name in names}


def _first_line(file: Path) -> str:
    with file.open(encoding="utf-8") as lines:
        return lines.readline().strip().strip('"')


COMMANDS = help_lines(Path(__file__).parent.parent)


class Commands(TyperGroup):
    """A Typer group of placeholder commands with help lines; it imports a command's module when that is called."""

    listing = False

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The imported command, or the placeholder with its help line while --help lists all commands."""
        stand_in = super().get_command(ctx, cmd_name)
        if stand_in is None or self.listing:
            return stand_in
        alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        alone.command(cmd_name)(getattr(import_module(f"attn_cli.cli.{cmd_name}"), cmd_name))
        return get_command(alone)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the first word names; InputError that suggests a command line if it names none."""
        if args[0] in self.commands or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        raise InputError(f"no command {beginning(args[0])!r}", f"try: {suggestion(args)}    all commands: attn --help")

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The list of commands in --help."""
        self.listing = True
        try:
            super().format_commands(ctx, formatter)
        finally:
            self.listing = False


def declare(app: typer.Typer) -> None:
    """Add a placeholder for every command to `app`, whose group class must be `Commands`."""
    for name, line in COMMANDS.items():
        app.command(name, help=line)(lambda: None)


# First words that are no command, and the command line that does what they ask for.
_OTHER_WORDS = {
    "version": ("--version",), "cache": ("env",), "models": ("env",), "config": ("env",), "devices": ("env",),
    "tutorial": ("guide", "ladder"), "docs": ("guide",), "man": ("guide",), "tui": ("inspect",), "view": ("matrix",),
    "explore": ("inspect",), "viz": ("matrix",), "heatmap": ("matrix",), "check": ("compute",), "list": ("--help",),
}  # fmt: skip
_NEAR = 0.65  # how similar a mistyped command must be


def suggestion(words: Sequence[str]) -> str:
    """The command line that was probably meant by `words`: a mistyped command, or a text for `inspect`.

    >>> print(suggestion(["hedas", "river bank", "-q"]))
    attn heads "river bank" -q
    >>> print(suggestion(["river", "bank", "-m", "gpt2"]))
    attn inspect "river bank" -m gpt2
    >>> print(suggestion(["explore", "--file", "prompt.txt"]))
    attn inspect --file prompt.txt
    """
    if words[0] in _OTHER_WORDS:
        return command_words([*_OTHER_WORDS[words[0]], *words[1:]])
    near = get_close_matches(words[0], COMMANDS, 1, _NEAR)
    if near:
        return command_words([near[0], *words[1:]])
    text = list(takewhile(lambda word: word == "-" or not word.startswith("-"), words))
    if not text:  # a text that starts with - goes after --, and so does all that follows
        return command_words(["inspect", "--", " ".join(words)])
    return command_words(["inspect", " ".join(text), *words[len(text) :]])
