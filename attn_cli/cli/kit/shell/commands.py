"""The commands: every module of `attn_cli.cli` is one, imported when it is called, not for `attn --help`."""

import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from attn_cli.cli.kit.shell.coercion import coerce_plainly
from attn_cli.cli.kit.shell.declarations import declaration
from attn_cli.cli.kit.shell.left_out_values import with_left_out
from attn_cli.cli.kit.shell.settings import Note, defaults_for
from attn_cli.cli.kit.stderr.lines import print_notes
from attn_cli.errors import InputError
from attn_cli.views.pager import is_leafed, leaf_through
from attn_cli.views.shell_words import beginning, command_words

GROUPS = {  # of --help, in its order; a command that none names is of the last
    "Look": ("inspect", "explore", "matrix", "top", "heads", "layers"),
    "Explain": ("parts", "compare", "plane"),
    "Change": ("knock", "budget", "compute", "bisect", "record"),
    "Corpus": ("scan", "scan show"),
    "Learn": ("learn", "nearest", "cost", "scale", "guide", "schema", "env"),
}
_FIRST = tuple(name for names in GROUPS.values() for name in names)


def help_lines(folder: Path) -> dict[str, str]:
    """The commands in a folder by name, each with its help line: the first line of its module's docstring.

    Modules are read, not imported. Those whose name begins with _ and subfolders are not commands. A name of two words
    has _ between them: `scan_show.py` is `attn scan show`.
    """
    files = {file.stem.replace("_", " "): file for file in folder.glob("[!_]*.py")}
    names = sorted(files, key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name))
    return {name: _first_line(files[name]) for name in names}


def _first_line(file: Path) -> str:
    with file.open(encoding="utf-8") as lines:
        return lines.readline().strip().strip('"')


KERNEL_CHECK = "attn compute --q q.npy --k k.npy --v v.npy --expect mine.npy"
"""The command line that tells whether a kernel is right, for those who look for it elsewhere."""
COMMANDS = help_lines(Path(__file__).parents[2])


def help_width() -> dict[str, int]:
    """The keyword argument `terminal_width` of a Click context on a terminal below 52 columns; {} on wider ones.

    Without it --help would be at least 50 columns wide.
    """
    columns = shutil.get_terminal_size().columns
    return {"terminal_width": columns} if columns < 52 else {}


_HELP = "attn.help"  # whether words of the command line ask for --help, or look so
_QUIET = "attn.quiet"


class GroupedHelp(TyperCommand):
    """A command whose --help lists the common options first, then those of each group."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Click's context in which `args` are parsed, with a narrow terminal's width for --help."""
        return super().make_context(info_name, args, parent, **help_width() | extra)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse a command line; raises typer.BadParameter for words that no parameter takes.

        Returns these words only while a shell completes the line, which raises nothing.
        """
        coerce_plainly(self.get_params(ctx))
        left: list[str] = super().parse_args(ctx, with_left_out(self.get_params(ctx), args))
        if left and not ctx.resilient_parsing:
            raise typer.BadParameter("unexpected arguments", ctx=ctx)
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
        """The options and their help by the titles of their groups."""
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
    """The text; one that a terminal is too low for is shown in the pager, and the command ends."""
    height = shutil.get_terminal_size().lines - 1 if sys.stdout is not None and sys.stdout.isatty() else None
    if is_leafed(text, height):
        leaf_through(f"{text}\n")
        raise typer.Exit
    return text


def _named(argument: Any) -> str:
    """An argument as --help names it, with dots after one that may be repeated."""
    return f"{argument.metavar}{'...' if argument.nargs == -1 else ''}"


def imported_command(name: str, *, quiet: bool = False) -> Any:
    """The Click command of that name, its module imported; the user's settings become defaults of its options.

    quiet  no note about settings that may not be read
    """
    function = name.replace(" ", "_")
    command = getattr(import_module(f"attn_cli.cli.{function}"), function)
    return _command(name, command, lambda note: print_notes([note], quiet=quiet))


def declared_command(name: str) -> Any:
    """The Click command of that name for --help and completion, without the imports of its module.

    Its module is imported when it is called. The user's settings are defaults of its options.
    """
    function = name.replace(" ", "_")
    return _command(name, declaration(f"attn_cli.cli.{function}", function), lambda note: None)


def _command(name: str, function: Callable[..., Any], note: Note) -> Any:
    alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    alone.command(name, cls=GroupedHelp)(function)
    command = get_command(alone)
    command.context_settings["allow_extra_args"] = True
    command.context_settings["default_map"] = defaults_for(name, [str(each.name) for each in command.params], note)
    return command


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
        """The command of a name, with the user's settings as defaults of its options; None where there is none.

        Its module is imported, but not for --help and completion.
        """
        stand_in = super().get_command(ctx, cmd_name)
        if stand_in is None:
            return None
        if ctx.resilient_parsing or ctx.meta.get(_HELP):
            return declared_command(cmd_name)
        return imported_command(cmd_name, quiet=ctx.meta.get(_QUIET, False))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the first two words name, or the first; InputError that suggests another line if none is."""
        ctx.meta[_HELP] = not {"-h", "--help"}.isdisjoint(args)
        ctx.meta[_QUIET] = not {"-q", "--quiet"}.isdisjoint(args)
        if " ".join(args[:2]) in self.commands:
            args = [" ".join(args[:2]), *args[2:]]
        if args[0] in self.commands or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        line = suggestion(args)
        more = "" if line == _ALL else f"    all commands: {_ALL}"
        raise InputError(f"no command {beginning(args[0])!r}", f"try: {line}{more}")

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
    """The lines that `attn` alone prints, each of at most `width` columns: what it is, and five commands to begin with.

    >>> print(first_page(40).splitlines()[-1])
      attn --help
    """
    longest = max(len(example) for example, _ in _EXAMPLES)
    wide = width >= longest + 29
    title = textwrap.wrap("Look inside any transformer's attention from a terminal.", width)
    return "\n".join([*title, *(f"  {example:{longest}}  {words}" if wide else f"  {example}"[:width]
                                for example, words in _EXAMPLES)])  # fmt: skip


def declare(app: typer.Typer) -> None:
    """Add a placeholder for every command to `app`, whose group class must be `Commands`."""
    for name, line in COMMANDS.items():
        app.command(name, help=line)(lambda: None)


_ALL = "attn --help"
_GUIDE = Path(__file__).parents[3] / "guide"
# First words that are no command, and the command line that does what they ask for.
_OTHER_WORDS = {
    "version": ("--version",), "cache": ("env",), "models": ("env",), "config": ("env",), "devices": ("env",),
    "tutorial": ("guide", "ladder"), "docs": ("guide",), "man": ("guide",), "tui": ("explore",), "view": ("matrix",),
    "viz": ("matrix",), "heatmap": ("matrix",), "check": ("guide", "matrices"), "list": ("--help",),
    "kinds": ("heads", "--kinds"), "induction": ("heads", "--kinds"), "show": ("scan", "show"), "costs": ("cost",),
    "plot": ("matrix",), "explain": ("inspect",), "run": ("inspect",), "ablate": ("knock",), "diff": ("compare",),
    "similar": ("nearest",), "attend": ("inspect",), "tokens": ("inspect",), "tokenize": ("inspect",),
}  # fmt: skip
_WITH_MORE = {"generate": ("inspect", "--generate", "20"), "steps": ("compute", "--steps"), "why": ("top", "--why")}
_NEAR = 0.65  # how similar a mistyped command must be


def suggestion(words: Sequence[str]) -> str:
    """The command line that was probably meant by `words`: a mistyped command, a page, or a text for `inspect`.

    >>> print(suggestion(["hedas", "river bank", "-q"]))
    attn heads "river bank" -q
    >>> print(suggestion(["river", "bank", "-m", "gpt2"]))
    attn inspect "river bank" -m gpt2
    >>> print(suggestion(["explorer", "--file", "prompt.txt"]))
    attn explore --file prompt.txt
    >>> print(suggestion(["sinks"]))
    attn guide sinks
    """
    named = next((at for at, word in enumerate(words) if at and word in COMMANDS), 0)
    if named and (" " in words[0] or words[0].startswith(".")):  # a text or model before its command
        return suggestion([words[named], *words[:named], *words[named + 1 :]])
    if words[0] in COMMANDS:
        return command_words(words)
    if words[0] == "show" and words[1:] and not Path(words[1], "scan.json").exists():
        return suggestion(["inspect", *words[1:]])
    if words[0] in _OTHER_WORDS:
        line = _OTHER_WORDS[words[0]]
        return command_words(line if line[0] in ("guide", "--help") else [*line, *words[1:]])
    if words[0] in _WITH_MORE and words[1:]:
        name, *more = _WITH_MORE[words[0]]
        return command_words([name, *words[1:], *more])
    if not words[1:] and words[0] in {page.stem for page in _GUIDE.glob("*.md")}:
        return command_words(["guide", *words])
    near = get_close_matches(words[0], COMMANDS, 1, _NEAR)
    if near:
        return command_words([near[0], *words[1:]])
    text = list(takewhile(lambda word: word == "-" or not word.startswith("-"), words))
    if not text:  # a text that starts with - goes after --, and so does all that follows
        return command_words(["inspect", "--", " ".join(words)])
    return command_words(["inspect", " ".join(text), *words[len(text) :]])
