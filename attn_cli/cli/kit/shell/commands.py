"""The commands: every module of `attn_cli.cli` is one, imported when it is called, not for `attn --help`."""

import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from attn_cli.errors import InputError
from attn_cli.text import cut
from attn_cli.views.invocation import command_line, on_texts, quoted
from attn_cli.views.pager import is_leafed, leaf_through

_NARROW = 52  # columns: what Click writes --help for, at least


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


GROUPS = {  # of --help, in its order
    "Look": ("inspect", "explore", "matrix", "top", "heads", "layers"),
    "Explain": ("parts", "knock", "compare"),
    "Your own numbers": ("compute",),
    "Corpus": ("scan", "scan show"),
    "Learn": ("plane", "nearest", "learn", "scale", "cost"),
    "Help": ("guide", "schema", "env"),
}


def _help_line(name: str) -> str:
    """The first line of the docstring of a command's module, which is not imported for it."""
    with (Path(__file__).parents[2] / f"{name.replace(' ', '_')}.py").open(encoding="utf-8") as lines:
        return lines.readline().strip().strip('"')


_OTHER_NAMES = {"softmax": "scale --scores 2,1,0.5", "attention": "compute", "similarity": "nearest", "ask": "inspect"}
COMMANDS = {name: _help_line(name) for names in GROUPS.values() for name in names}


class _GroupedHelp(TyperCommand):
    """A command whose --help lists the common options first, then those of each group."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        coerce_plainly(self.get_params(ctx))
        if any((each.name, each.metavar) == ("text", "TEXT") for each in self.params) and not ctx.resilient_parsing:
            given, more, _ = self.make_parser(ctx).parse_args([*args])
            if more:
                hint = f"try: {_whole_line(self, args, given, more)}"
                raise InputError(f"attn {self.name} takes one text, in quotes", hint)
        return super().parse_args(ctx, args)

    def get_help(self, ctx: Any) -> str:
        return _leafed(super().get_help(ctx))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            assert record is not None  # no option is hidden
            if parameter.param_type_name == "argument":
                sections["Arguments"].append((_named(parameter), record[1]))
            else:
                sections.setdefault(getattr(parameter, "rich_help_panel", None) or "Options", []).append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def _whole_line(command: TyperCommand, args: Sequence[str], given: Mapping[str, Any], more: Sequence[str]) -> str:
    """The whole command on these words: as one text, or as several, by a word that they share or line by line."""
    texts, name, model = [given["text"], *more], str(command.name), ["-m", str(given.get("model"))] * ("model" in given)
    if not any(" " in text for text in texts):
        left = [word for word in args if word != "--"]
        for word in texts:
            left.remove(word)
        return command_line(on_texts(name, [" ".join(texts)], left))
    in_words = [re.findall(r"\w+", text.lower()) for text in texts]
    at = len([*takewhile(lambda words: len({*words}) == 1, zip(*in_words, strict=False))])  # where they differ first
    if shared := [word for word in in_words[0] if all(word in words for words in in_words)]:
        after = [word for word in shared if all(word in words[at:] for words in in_words)]
        chosen = [str(given["token"])] if given.get("token") in shared else [max(after or shared, key=len)]
        if not after and all(len(words) > at for words in in_words):  # they differ at the end: what precedes is alike
            chosen = [words[at] for words in in_words]
        return command_line(on_texts("compare", texts, [*(x for word in chosen for x in ("-w", word)), *model]))
    lines = command_line([name if name != "explore" else "inspect", "--lines", *model])
    return f"printf '%s\\n' {' '.join(map(quoted, texts))} | {lines}"


def _leafed(text: str) -> str:
    """The text of --help; on a terminal that it is taller than, it is shown in the pager and typer.Exit raised."""
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
    alone.command(name, cls=_GroupedHelp)(getattr(import_module(f"attn_cli.cli.{function}"), function))
    return get_command(alone)


class Commands(TyperGroup):
    """A Typer group that imports a command's module when that is called, and not for its help line."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Click's context in which `args` are parsed, with a narrow terminal's width for --help of all commands."""
        columns = shutil.get_terminal_size().columns
        width = {"terminal_width": columns} if columns < _NARROW else {}
        return super().make_context(info_name, args, parent, **width | extra)

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Parse a command line with values taken as they are where they fit; returns the words that are left."""
        coerce_plainly(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands."""
        return [*COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name, whose module is imported; None where there is none."""
        return imported_command(cmd_name) if cmd_name in COMMANDS else None

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """The commands that begin so, by their names alone: no module is imported for them."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        from click.shell_completion import CompletionItem

        return [CompletionItem(name, help=line) for name, line in COMMANDS.items() if name.startswith(incomplete)]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the first two words name, or the first; InputError where none is."""
        if " ".join(args[:2]) in COMMANDS:
            args = [" ".join(args[:2]), *args[2:]]
        if args[0] in COMMANDS or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        name = cut(args[0], 60)
        near = get_close_matches(args[0], COMMANDS, 1)
        meant = _OTHER_NAMES.get(args[0]) or (near[0] if near else "")
        line = f"did you mean {meant}?" if meant else f"try: attn inspect {quoted(name)}"
        raise InputError(f"no command {name!r}", f"{line}    all commands: attn --help")

    def get_help(self, ctx: Any) -> str:
        """The text of --help; on a terminal that it is taller than, it is shown in the pager and typer.Exit raised."""
        return _leafed(super().get_help(ctx))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write to `formatter` the commands by groups, each with its whole line of help, all lines in one column."""
        width = max(map(len, COMMANDS))
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", COMMANDS[name]) for name in names])


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
    lines = textwrap.wrap("Look inside any transformer's attention from a terminal.", width)
    for example, words in _EXAMPLES:
        lines.append(f"  {example:{longest}}  {words}" if width >= longest + 29 else f"  {example}"[:width])
    return "\n".join(lines)
