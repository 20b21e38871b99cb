"""The command line: strings in, exit code out. Every module here is a command; `kit` holds what they share."""

import errno
import logging
import os
import re
import shutil
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn, TextIO

import typer

from attn_cli._version import __version__
from attn_cli.cli.kit.shell.commands import COMMANDS, Commands, first_page
from attn_cli.cli.kit.stderr import print_line
from attn_cli.errors import AttnError, ExitCode, reason
from attn_cli.text import cut, shortened_words
from attn_cli.views.pager import leaf_through, waiting
from attn_cli.views.sink import ReaderGone


def message_and_hint(error: Any) -> tuple[str, str]:
    """The message of Click's usage error, and a hint: the command's first example, and where all options are."""
    message = str(error.format_message()).removesuffix(".").replace("Value error, ", "")
    errors = getattr(error.__cause__, "errors", None)
    if errors is not None and repr(errors()[0]["input"]) not in message:
        message += f", not {errors()[0]['input']!r}"
    context = getattr(error, "ctx", None)
    command = f"attn {sys.argv[1]}" if context is None else str(context.command_path)
    words = "" if context is None else str(context.command.help).partition("Examples:")[2]
    example = re.search(rf"^ *({command} [^|\n]*?)(?:  [^|\n]*)?$", words, re.MULTILINE)  # without remarks
    advice = [f"try: {example[1]}"] if example else []
    if context and hasattr(error, "possibilities") and (meant := _meant(error.option_name, context.command.params)):
        message, advice = f"no option {error.option_name}", [f"did you mean {meant}"]
    return message, "    ".join([*advice, f"all options: {command} --help"])


def _meant(unknown: str, parameters: Sequence[Any]) -> str:
    """`--mask MASK? window:W, ...`: the one option that begins so, or what one's help says with the word; else ""."""
    known = [each for each in parameters if each.param_type_name == "option"]
    options = [f"{each.opts[0]} {each.metavar or ''}? {each.help}".replace(" ?", "?") for each in known]
    for pattern in (r"^{}\S", r"\b{}\b"):
        found = re.compile(pattern.format(re.escape(unknown if "^" in pattern else unknown.strip("-"))), re.IGNORECASE)
        if len(unknown) > 2 and len(near := [each for each in options if found.search(each)]) == 1:
            name, _, says = near[0].partition("? ")
            parts = [part for part in re.split(r"(?:,|\.) (?![^(]*\))", says) if found.search(part)]
            return f"{name}? {', '.join(parts) or says}"
    return ""


_LONGEST_MESSAGE = 2000  # what a person may still read; arguments and words of files stand in messages
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

app = typer.Typer(
    cls=Commands,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(requested: bool) -> None:
    if requested:
        print(f"attn {__version__}")
        raise typer.Exit


_EXIT_CODES = """\b
Exit codes:
  0 done                             4 text too long, or not enough memory
  1 check failed (--expect)          5 output can't be written
  2 usage or unusable input          70 a bug
  3 model can't be loaded            130, 143, 129 interrupted, ended, hung up"""


@app.callback(invoke_without_command=True, epilog=_EXIT_CODES)
def attn(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks (anywhere on the command line).")] = False,
) -> None:
    """Look inside any transformer's attention from a terminal.

    \b
    Examples:
      attn inspect "he sat on the river bank"      a table of words, built in
      attn inspect "river bank" -m gpt2            a Hugging Face model
      attn compute --q q.npy --k k.npy --v v.npy   your own matrices
      attn compare "river bank" "bank loan"        one word in two contexts
      attn compute "the cat sat" -m toy:the-cat-sat --steps  each step
      echo "river bank" | attn top - --json        a pipeline
      attn guide                                   tour, tutorial, reference
    """
    if context.invoked_subcommand is None:
        print(first_page(shutil.get_terminal_size().columns))


def main() -> NoReturn:
    """Run the command line; only here failures become a line on stderr and an exit code."""
    arguments = sys.argv[1:]
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    debug = "--debug" in options or bool(os.environ.get("ATTN_DEBUG"))
    if "--debug" in options:
        arguments.remove("--debug")
    if arguments[:1] == ["help"] or (arguments[:1] in (["-h"], ["--help"]) and COMMANDS.keys() & arguments[1:2]):
        arguments = [*arguments[1:], "--help"]
    if sys.stderr is None:  # closed by the caller; print() would fall back on standard output
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    warnings.filterwarnings("ignore", category=RuntimeWarning)  # NumPy's, over numbers that the user allowed
    if not debug:
        logging.lastResort = logging.NullHandler()  # of libraries that log: what they can't do is raised, too
    try:
        try:
            code = int(app(arguments, prog_name="attn", standalone_mode=False) or ExitCode.DONE)
        finally:
            _leaf_through(waiting)
    except Exception as error:
        code = _exit_code(error, debug)
    except KeyboardInterrupt:
        code = ExitCode.INTERRUPTED
    except SystemExit as request:
        code = ExitCode.DONE if isinstance(request.__context__, BrokenPipeError) else int(request.code or 0)
    sys.exit(_flushed(code))


def _leaf_through(texts: list[str]) -> None:
    """Show texts in the pager, after the memory of the model that made them is given back."""
    if texts:
        from attn_cli.sources.memory import let_go

        let_go()
    while texts:
        leaf_through(texts.pop(0))


def _exit_code(error: Exception, debug: bool) -> int:
    if isinstance(error, ReaderGone | BrokenPipeError):
        return ExitCode.DONE
    if debug:
        traceback.print_exception(error)
    message, hint, code = _explained(error)
    return code if debug and code == ExitCode.BUG else _print_error(message, hint, code)


def _explained(error: Any) -> tuple[str, str, int]:
    if isinstance(error, AttnError):
        return error.message, error.hint, error.code
    if isinstance(error, OSError) and error.errno in _NO_SPACE:
        return f"can't write: {reason(error)}", "", ExitCode.OUTPUT
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {reason(error)}", "check the name and its permissions", ExitCode.USAGE
    if isinstance(error, MemoryError):
        return "out of memory", "a shorter text, fewer --layer and --head, or a smaller model", ExitCode.LIMIT
    if hasattr(error, "exit_code") and hasattr(error, "format_message"):  # a usage error of Typer's own
        return *message_and_hint(error), int(error.exit_code)
    return f"a bug: {type(error).__name__}: {error}", "please report it with what --debug prints", ExitCode.BUG


def _print_error(message: str, hint: str, code: int) -> int:
    print_line(f"attn: {cut(shortened_words(message), _LONGEST_MESSAGE)}")
    if hint:
        print_line(f"      {cut(shortened_words(hint), _LONGEST_MESSAGE)}")
    return code


def _flushed(code: int) -> int:
    if sys.stdout is not None:
        try:
            sys.stdout.flush()
        except OSError as error:
            _abandon(sys.stdout)
            if code == ExitCode.DONE and not isinstance(error, BrokenPipeError):
                code = _print_error(f"can't write standard output: {reason(error)}", "", ExitCode.OUTPUT)
    try:
        sys.stderr.flush()
    except OSError:
        _abandon(sys.stderr)
    return code


def _abandon(stream: TextIO) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
