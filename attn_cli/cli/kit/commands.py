"""The commands, imported when they are called: `attn --help` waits for none of them."""

from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from itertools import takewhile
from shlex import quote
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from attn_cli.errors import InputError

# What each module of this room offers under its own name, in one line: the first of its docstring.
COMMANDS = {
    "inspect": "The overview: tokens, heads, most attended tokens, one matrix.",
    "matrix": "Scores or weights themselves, as heat maps or as arrays.",
    "top": "The keys that each query (or the asked one) attends to most.",
    "heads": "One line per head: how spread, how far, and at what.",
    "layers": "The map of a model: every block, its kind, heads, mask, scale, and how it is seen.",
    "compare": "One word in two contexts: its vector before and after attention, and what moved it.",
    "plane": "The words of a text as points in the plane, before and after attention.",
    "learn": "Learn W_Q and W_K, so that a word attends to another, by gradient descent on a table's fixed vectors.",
    "nearest": "The nearest words of a table of word vectors, and analogies.",
    "compute": "Attention from scratch on your own matrices or words.",
    "cost": "What attention takes: operations and bytes, for plain, grouped, latent and windowed keys.",
    "scale": "Why 1 / sqrt(d): softmax saturates, and products of long vectors are large.",
    "schema": "The JSON Schema of a command's --json output.",
}


class Commands(TyperGroup):
    """A group that holds a line for each command until one is called."""

    listing = False

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command itself; while --help lists them, what stands for it."""
        line = super().get_command(ctx, cmd_name)
        if line is None or self.listing:
            return line
        alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        alone.command(cmd_name)(getattr(import_module(f"attn_cli.cli.{cmd_name}"), cmd_name))
        return get_command(alone)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the first word names; InputError with the line that was meant if it names none."""
        if args[0] in self.commands or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        raise InputError(f"no command {_cut(args[0])!r}", f"try: {meant(args)}    all commands: attn --help")

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The list of commands in --help."""
        self.listing = True
        try:
            super().format_commands(ctx, formatter)
        finally:
            self.listing = False


def declare(app: typer.Typer) -> None:
    """Put a line for every command into `app`, whose group must be `Commands`."""
    for name, line in COMMANDS.items():
        app.command(name, help=line)(lambda: None)


def meant(words: Sequence[str]) -> str:
    """The line that was meant by words of which the first is no command: a mistyped one, or a text for `inspect`.

    >>> print(meant(["hedas", "river bank", "-q"]))
    attn heads "river bank" -q
    >>> print(meant(["river", "bank", "-m", "gpt2"]))
    attn inspect "river bank" -m gpt2
    """
    near = get_close_matches(words[0], COMMANDS, 1)
    if near:
        return " ".join(["attn", near[0], *map(_quoted, words[1:])])
    text = list(takewhile(lambda word: word == "-" or not word.startswith("-"), words))
    if not text:  # a text that starts with - goes after --, and so does all that follows
        return f"attn inspect -- {_quoted(' '.join(words))}"
    return " ".join(["attn inspect", _quoted(" ".join(text)), *map(_quoted, words[len(text) :])])


def _quoted(word: str) -> str:
    """One word of a command line, as a person would write it."""
    plain = quote(word) == word or set(word) & set('"$`\\!')
    return quote(_cut(word)) if plain else f'"{_cut(word)}"'


def _cut(text: str) -> str:
    """The beginning of what may be a whole text."""
    return text if len(text) <= 60 else f"{text[:59]}…"
