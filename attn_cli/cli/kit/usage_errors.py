"""What is wrong with a command line, from Typer's own errors: what came, and what was expected."""

from typing import Any

_KINDS = {
    "int_parsing": "is no whole number",
    "float_parsing": "is no number",
    "greater_than_equal": "is not {ge:g} or more",
    "less_than_equal": "is not {le:g} or less",
}


def explained(error: Any) -> tuple[str, str]:
    """The message of a usage error, and a hint."""
    command = getattr(getattr(error, "ctx", None), "command_path", "attn")
    message = _of_value(error) or str(error.format_message()).removesuffix(".")
    more = ""
    if "No such option" in message:
        more = f"; a text that starts with - goes after --: {command} -- TEXT"
        more = "; options stand after the command: attn inspect TEXT -q" if command == "attn" else more
    return message, f"try: {command} --help{more}"


def _of_value(error: Any) -> str:
    """Of a value that its option can't take; "" for any other error.

    Typer checks values with pydantic, whose words tell of its own insides and not what came.
    """
    found = getattr(error.__cause__, "errors", None)
    parameter = getattr(error, "param", None)
    if found is None or parameter is None:
        return ""
    first = found()[0]
    kind = _KINDS.get(first["type"], "")
    said = kind.format_map(first.get("ctx", {})) if kind else f"can't be taken: {first['msg']}"
    return f"{' / '.join(map(repr, parameter.opts))}: {first['input']!r} {said}"
