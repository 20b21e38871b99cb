"""The commands, imported when they are called: `attn --help` waits for none of them."""

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

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
