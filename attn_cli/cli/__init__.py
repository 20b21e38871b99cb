"""The command line: strings in, exit code out."""

import os
import signal
import sys
import traceback
from types import FrameType
from typing import Annotated, NoReturn

import typer

from attn_cli._version import __version__
from attn_cli.cli.compute import compute
from attn_cli.cli.heads import heads
from attn_cli.cli.inspect import inspect
from attn_cli.cli.matrix import matrix
from attn_cli.cli.schema import schema
from attn_cli.cli.top import top
from attn_cli.errors import AttnError, ExitCode
from attn_cli.views.output import ReaderGone
from attn_cli.views.tokens import visible

app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
for command in (inspect, matrix, top, heads, compute, schema):
    app.command()(command)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"attn {__version__}")
        raise typer.Exit


@app.callback()
def attn(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks (anywhere on the command line).")] = False,
) -> None:
    """Look inside any transformer's attention from a terminal.

    \b
    Examples:
      attn inspect "he sat on the river bank"              a built-in table of word vectors
      attn inspect "river bank" -m gpt2                    a Hugging Face model
      attn compute --q q.npy --k k.npy --v v.npy           your own matrices
      echo "river bank" | attn top - --json | jq .result   a pipeline

    \b
    Exit codes: 0 done, 1 the asked check is negative, 2 usage or unusable input, 3 model can't be
    loaded, 4 too long or too large, 5 output can't be written, 70 a bug, 130 interrupted.
    """


def main() -> NoReturn:
    """Run the command line; the one place where a failure becomes a line and an exit code."""
    arguments = sys.argv[1:]
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    debug = "--debug" in options or bool(os.environ.get("ATTN_DEBUG"))
    if "--debug" in options:
        arguments.remove("--debug")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    signal.signal(signal.SIGTERM, _terminated)
    try:
        code = app(arguments, prog_name="attn", standalone_mode=False)
        sys.stdout.flush()
    except Exception as error:
        code = _told(error, debug)
    except KeyboardInterrupt:
        code = ExitCode.INTERRUPTED
    except SystemExit as request:
        code = ExitCode.DONE if isinstance(request.__context__, BrokenPipeError) else request.code
    if code == ExitCode.DONE or isinstance(code, ExitCode):
        _drop_unwritten_output()
    sys.exit(code)


def _told(error: Exception, debug: bool) -> int:
    """Say what went wrong in one line, and what to try in a second; return the exit code."""
    if isinstance(error, ReaderGone | BrokenPipeError):
        return ExitCode.DONE
    if debug:
        traceback.print_exception(error)
    if isinstance(error, AttnError):
        print(f"attn: {visible(error.message)}", file=sys.stderr)
        if error.hint:
            print(f"      {visible(error.hint)}", file=sys.stderr)
        return error.code
    if isinstance(error, MemoryError):
        print("attn: out of memory", file=sys.stderr)
        return ExitCode.LIMIT
    if hasattr(error, "exit_code") and hasattr(error, "format_message"):  # a usage error of Typer's own
        print(f"attn: {visible(error.format_message())}", file=sys.stderr)
        print(f"      try: {_usage(error)} --help", file=sys.stderr)
        return int(error.exit_code)
    if not debug:
        print(f"attn: a bug: {type(error).__name__}: {visible(str(error))}", file=sys.stderr)
        print("      please report it with what --debug prints", file=sys.stderr)
    return ExitCode.BUG


def _usage(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    return str(context.command_path) if context is not None else "attn"


def _terminated(number: int, frame: FrameType | None) -> None:
    raise SystemExit(ExitCode.TERMINATED)


def _drop_unwritten_output() -> None:
    """Keep Python from complaining at exit about output that the reader no longer wants."""
    try:
        sys.stdout.flush()
    except (BrokenPipeError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
