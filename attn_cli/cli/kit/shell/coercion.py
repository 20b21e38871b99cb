"""Values that are at once what an option takes: words of text, and choices among words, without a validator.

Typer builds a pydantic model for every option whose value it looks at, None included, and pydantic takes as long to
import as NumPy does. What isn't plainly right goes to Typer, which says what is wrong with it.
"""

from collections.abc import Iterable
from typing import Any, Literal, get_args, get_origin

_MOST_DIGITS = 9  # of a whole number


def coerce_plainly(parameters: Iterable[Any]) -> None:
    """Change parameters of Click so that they take plainly valid values without pydantic, which is slow to import."""
    for parameter in parameters:
        _coerce_plainly(parameter)


def _coerce_plainly(parameter: Any) -> None:
    by_typer, descriptor = parameter.process_value, getattr(parameter, "type_descriptor", None)
    if descriptor is None:
        return
    many = parameter.multiple or parameter.nargs == -1

    def process_value(context: Any, value: Any) -> Any:
        if value in (None, (), []) and parameter.required:
            return by_typer(context, value)
        if value is None:
            value = () if many else None
        elif many and _is_of_texts(value, descriptor.annotation):
            value = list(value)
        elif many or parameter.nargs != 1 or not _fits(value, descriptor):
            return by_typer(context, value)
        elif descriptor.annotation is int:
            value = int(value)
        return value if parameter.callback is None else parameter.callback(context, parameter, value)

    parameter.process_value = process_value


def _fits(value: Any, descriptor: Any) -> bool:
    """True if a value is a text or a number where one is taken, or one of the words that may be chosen."""
    kind = descriptor.annotation
    if not isinstance(value, str | int) or isinstance(value, bool):
        return isinstance(value, bool | float) and kind is type(value)
    if kind is int:
        least, most = (getattr(descriptor.parameter_info, end, None) for end in ("min", "max"))
        whole = str(value).isascii() and str(value).isdecimal() and len(str(value)) <= _MOST_DIGITS
        return whole and (least is None or least <= int(value)) and (most is None or int(value) <= most)
    return isinstance(value, str) and (kind is str or (get_origin(kind) is Literal and value in get_args(kind)))


def _is_of_texts(values: Any, annotation: Any) -> bool:
    return annotation == list[str] and isinstance(values, list | tuple) and all(isinstance(x, str) for x in values)
