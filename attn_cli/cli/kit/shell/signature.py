"""Options that several commands take, declared once as a dataclass and spread over each command's signature."""

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any

from attn_cli.cli.kit.shell.invocation import current, invocation_of
from attn_cli.errors import ExitCode


def takes_options(command: Callable[..., ExitCode]) -> Callable[..., int]:
    """Decorator: replaces every parameter whose type is a dataclass by the fields of the dataclass, each an option."""
    signature = inspect.signature(command)
    groups: dict[str, type] = {
        name: parameter.annotation
        for name, parameter in signature.parameters.items()
        if isinstance(parameter.annotation, type) and is_dataclass(parameter.annotation)
    }
    parameters: list[inspect.Parameter] = []
    last: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        if name in groups:
            options = _parameters(groups[name])
            names = [option.name for option in options]
            before = 1 + names.index(getattr(groups[name], "COMMANDS_OWN_AFTER", names[-1]))
            parameters += options[:before]
            last += options[before:]
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    parameters += last

    @wraps(command)
    def with_groups(**values: Any) -> int:
        given = invocation_of(parameters, values)
        together = {
            name: kind(**{field.name: values.pop(field.name) for field in fields(kind)})
            for name, kind in groups.items()
        }
        token = current.set(given)
        try:
            return int(command(**together, **values))
        finally:
            current.reset(token)

    with_groups.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    with_groups.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_groups


def _parameters(kind: type) -> list[inspect.Parameter]:
    return [
        inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type)
        for field in fields(kind)
    ]
