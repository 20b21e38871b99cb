"""The options and arguments of the command line, as words that can be typed again."""

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from inspect import Parameter
from typing import Any, get_args

from typer.models import ArgumentInfo, OptionInfo

from attn_cli.views.invocation import Invocation

current: ContextVar[Invocation | None] = ContextVar("current", default=None)
"""The command line of the command that runs; None outside of one."""


def invocation_of(parameters: Sequence[Parameter], values: Mapping[str, Any]) -> Invocation:
    """The arguments and options of a command that differ from their defaults, with the words that give them."""
    given = []
    for parameter in parameters:
        value, declared = values[parameter.name], _declared(parameter)
        if declared is None or value is None or value == parameter.default:
            continue
        given.append((isinstance(declared, OptionInfo), parameter.name, _words(declared, value)))
    return Invocation({name: words for _, name, words in sorted(given, key=lambda each: each[0])})


def _declared(parameter: Parameter) -> ArgumentInfo | OptionInfo | None:
    infos = (info for info in get_args(parameter.annotation)[1:] if isinstance(info, ArgumentInfo | OptionInfo))
    return next(infos, None)


def _words(declared: ArgumentInfo | OptionInfo, value: Any) -> tuple[str, ...]:
    several = value if isinstance(value, list | tuple) else [value]
    if isinstance(declared, ArgumentInfo):
        return tuple(map(str, several))
    names = (
        (declared.default, *(declared.param_decls or ())) if isinstance(declared.default, str) else declared.param_decls
    )
    flag = min(names or ("",), key=len)
    return (flag,) if value is True else tuple(word for each in several for word in (flag, str(each)))
