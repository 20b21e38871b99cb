"""Options that several commands take, declared once as a dataclass and spread over each command's signature."""

import inspect
from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Any


def spread(command: Callable[..., int], name: str, kind: type, *, before: int) -> Callable[..., int]:
    """`command(name=kind(...), ...)` with the fields of `kind` as options of its own.

    The command's own options stand after the first `before` fields: that is the order in which --help lists them.
    """
    signature = inspect.signature(command)
    own = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for other, parameter in signature.parameters.items()
        if other != name
    ]
    shared = [
        inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type)
        for field in fields(kind)
    ]
    parameters = [*shared[:before], *own, *shared[before:]]

    @wraps(command)
    def spread_out(**values: Any) -> int:
        together = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
        return int(command(**{name: together}, **values))

    spread_out.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    spread_out.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return spread_out
