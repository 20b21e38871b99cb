"""Typer's usage errors, reworded as this program's own: what was given and what was expected."""

from typing import Any

_KINDS = {
    "int_parsing": "is no whole number",
    "float_parsing": "is no number",
    "greater_than_equal": "is not {ge:g} or more",
    "less_than_equal": "is not {le:g} or less",
}


def message_and_hint(error: Any) -> tuple[str, str]:
    """The message of a usage error, and a hint on what to try."""
    command = getattr(getattr(error, "ctx", None), "command_path", "attn")
    message = _value_error(error) or str(error.format_message()).removesuffix(".")
    more = ""
    if "No such option" in message:
        more = f"; a text that starts with - goes after --: {command} -- TEXT"
        more = "; options stand after the command: attn inspect TEXT -q" if command == "attn" else more
    return message, f"try: {command} --help{more}"


def _value_error(error: Any) -> str:
    """The message for a value that its option doesn't accept; "" for any other error.

    Typer's own messages come from pydantic and name pydantic's types, not the value.
    """
    errors = getattr(error.__cause__, "errors", None)
    parameter = getattr(error, "param", None)
    if errors is None or parameter is None:
        return ""
    first = errors()[0]
    kind = _KINDS.get(first["type"], "")
    problem = kind.format_map(first.get("ctx", {})) if kind else f"can't be taken: {first['msg']}"
    return f"{' / '.join(map(repr, parameter.opts))}: {first['input']!r} {problem}"
