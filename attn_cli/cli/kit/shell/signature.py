"""Options and arguments: how one is declared, and how dataclasses of them are spread over a command's signature."""

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import Field, field, fields, is_dataclass
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any

import typer
from typer.models import OptionInfo

from attn_cli.errors import ExitCode
from attn_cli.views.invocation import Invocation

current: ContextVar[Invocation | None] = ContextVar("current", default=None)
"""The command line of the command that runs; None outside of one."""


def option(words: str, help: str, default: Any = None, **more: Any) -> Any:
    """Declare an option as --help shows it, "--top -k K", "Show K keys per query."; the default ... is none."""
    *flags, last = words.split()
    is_flag = last.startswith("-")
    names, metavar = ([*flags, last], None) if is_flag else (flags, last)
    info = typer.Option(..., *names, metavar=metavar, help=help, **more)
    return field(default=False if is_flag else default, metadata={"info": info})


def argument(metavar: str, help: str, default: Any = None, **more: Any) -> Any:
    """Declare an argument as --help shows it; the default ... is none."""
    info = typer.Argument(metavar=metavar, help=help, **{"show_default": False} | more)
    return field(default=default, metadata={"info": info})


def takes_options(command: Callable[..., ExitCode | None]) -> Callable[..., int]:
    """Decorator: replaces every parameter whose type is a dataclass by the fields of the dataclass, each an option."""
    own = signature(command)
    groups: dict[str, Any] = {
        name: each.annotation for name, each in own.parameters.items() if is_dataclass(each.annotation)
    }
    parameters: list[Parameter] = []
    last: list[Parameter] = []
    for name, each in own.parameters.items():
        if name in groups:
            options = [_parameter(field.name, field.type, field) for field in fields(groups[name])]
            names = [option.name for option in options]
            before = 1 + names.index(getattr(groups[name], "COMMANDS_OWN_AFTER", names[-1]))
            parameters += options[:before]
            last += options[before:]
        else:
            parameters.append(_parameter(name, each.annotation, each.default))
    parameters += last

    @wraps(command)
    def with_groups(**values: Any) -> int:
        token = current.set(_invocation(parameters, values))
        together = {
            name: kind(**{field.name: values.pop(field.name) for field in fields(kind)})
            for name, kind in groups.items()
        }
        try:
            return int(command(**together, **values) or ExitCode.DONE)
        finally:
            current.reset(token)

    with_groups.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    with_groups.__annotations__ = {each.name: each.annotation for each in parameters}
    return with_groups


def _parameter(name: str, kind: Any, declared: Field[Any]) -> Parameter:
    default = Parameter.empty if declared.default is ... else declared.default
    annotation = Annotated[kind, declared.metadata["info"]]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _invocation(parameters: Sequence[Parameter], values: Mapping[str, Any]) -> Invocation:
    """The arguments, then the options, that differ from their defaults, with the words that give them."""
    arguments: dict[str, tuple[str, ...]] = {}
    options: dict[str, tuple[str, ...]] = {}
    for each in parameters:
        value, info = values[each.name], each.annotation.__metadata__[0]
        if value is None or value == each.default:
            continue
        several = value if isinstance(value, list | tuple) else [value]
        if not isinstance(info, OptionInfo):
            arguments[each.name] = tuple(map(str, several))
            continue
        flag = min(info.param_decls or ("",), key=len)
        options[each.name] = (flag,) if value is True else tuple(w for one in several for w in (flag, str(one)))
    return Invocation(arguments | options, frozenset(values))
