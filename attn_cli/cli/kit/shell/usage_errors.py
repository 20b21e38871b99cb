"""Typer's usage errors in this program's form: a line that says what is wrong, and one with an example to follow."""

import re
from typing import Any


def message_and_hint(error: Any) -> tuple[str, str]:
    """The message of Click's usage error, and a hint: the command's first example, and where all options are."""
    message = str(error.format_message()).removesuffix(".").replace("Value error, ", "")
    errors = getattr(error.__cause__, "errors", None)
    if errors is not None and repr(errors()[0]["input"]) not in message:
        message += f", not {errors()[0]['input']!r}"
    context = getattr(error, "ctx", None)
    command = "attn" if context is None else str(context.command_path)
    examples = [] if context is None else examples_of(command, str(context.command.help))
    advice = ["a text of several words goes in quotes"] * message.startswith("Got unexpected extra argument")
    advice += [f"try: {example}" for example in examples[:1]]
    return message, "    ".join([*advice, f"all options: {command} --help"])


def examples_of(command: str, words: str) -> list[str]:
    """The example lines of a help text `words`, without remarks, that begin with `command`, such as "attn top"."""
    lines = re.findall(rf"^ *({command} .*)", words.partition("Examples:")[2], re.MULTILINE)
    return [re.split(" {2,}", line)[0] for line in lines if "|" not in line]
