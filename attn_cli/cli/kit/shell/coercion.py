"""Values that are at once what an option takes, past pydantic, which takes half as long as all else of a short run."""

from collections.abc import Iterable
from functools import partial
from typing import Any, Literal, get_args, get_origin


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
