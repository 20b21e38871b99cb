"""Expected failures, with a message and a hint that a person can act on, and the exit code of each kind."""

from enum import IntEnum
from importlib import import_module
from typing import Any


class ExitCode(IntEnum):
    """The exit codes of every `attn` command; NEGATIVE: checked numbers are wrong, BUG: any other error."""

    DONE = 0
    NEGATIVE = 1
    USAGE = 2
    LOAD = 3
    LIMIT = 4
    OUTPUT = 5
    BUG = 70
    HUNG_UP = 129
    INTERRUPTED = 130
    TERMINATED = 143


class AttnError(Exception):
    """Base of expected failures: a message, what came and what was expected, and a hint, what to do next."""

    code = ExitCode.BUG

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in place of a traceback."""
        return [f"{type(self).__name__}: {self}"]


class InputError(AttnError):
    """Raised for a text, option, matrix or table of the user's that can't be used as it is."""

    code = ExitCode.USAGE


class LoadError(AttnError):
    """Raised where a model or tokenizer can't be loaded, or was refused."""

    code = ExitCode.LOAD


class LimitError(AttnError):
    """Raised at a limit of a resource: a text too long for the model, something too large for memory."""

    code = ExitCode.LIMIT


class OutputError(AttnError):
    """Raised where the result could not be written."""

    code = ExitCode.OUTPUT


def reason(error: BaseException) -> str:
    """Why something failed: the first line of the system's message, or of the library's; else the error's type."""
    return str(getattr(error, "strerror", None) or error).strip().partition("\n")[0] or type(error).__name__


def optional(package: str, extra: str, subject: str, *parts: str) -> Any:
    """An optional package, with its modules `parts`; LoadError of `subject` and the extra where it is missing."""
    try:
        for part in parts:
            import_module(f"{package}.{part}")
        return import_module(package)
    except ImportError as error:
        raise LoadError(f"{subject} the package {error.name}", f"pip install 'attn-cli[{extra}]'") from error
