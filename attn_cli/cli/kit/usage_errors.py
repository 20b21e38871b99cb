"""Typer's usage errors, reworded as this program's own: what was given and what was expected."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from attn_cli.cli.kit.brief_help import examples_of
from attn_cli.views.shell_words import beginning, command_words

_KINDS = {
    "int_parsing": "is no whole number",
    "float_parsing": "is no number",
    "greater_than_equal": "is not {ge:g} or more",
    "less_than_equal": "is not {le:g} or less",
}


# Options that people expect by another name, and what does the same.
_OTHER_NAMES = {
    "--causal": "--mask causal", "--text": "TEXT without an option", "--prompt": "TEXT without an option",
    "--layers": "--layer", "--topk": "--top", "--top-k": "--top", "--out": "--output", "--query": "--token",
    "--cuda": "--device cuda", "--gpu": "--device cuda", "--cpu": "--device cpu", "--fp16": "--dtype float16",
    "--bf16": "--dtype bfloat16", "--colour": "--color", "--no-color": "--color never", "--words-only": "--words",
    "--no-scale": "--scale off", "--from": "--word",
    "--csv": "--format csv", "--jsonl": "--format jsonl", "--html": "--format html", "--width": "COLUMNS=120",
}  # fmt: skip


def message_and_hint(error: Any, words: Sequence[str]) -> tuple[str, str]:
    """The message of a usage error on the command line `words`, and a hint on what to try."""
    command = getattr(getattr(error, "ctx", None), "command_path", "attn")
    message = _value_error(error) or str(error.format_message()).removesuffix(".")
    if extra := re.search(r"unexpected extra argument(?:\(s\))? \((.*)\)", message, re.DOTALL):
        given = extra[1].split(" ")
        takes_none = all(each.param_type_name != "argument" for each in error.ctx.command.params)
        return _no_text(given[0], error, command) if takes_none else _several_texts(given, words, command)
    if (unknown := re.search(r"No such option: (\S+)", message)) is None:
        example = _example(error, command) if message.startswith("Missing") else ""
        return message, f"try: {example}{command} --help"
    message = message.split(" (")[0]
    if unknown[1] in _OTHER_NAMES and _takes(error, _OTHER_NAMES[unknown[1]]):
        return message, f"try: {_OTHER_NAMES[unknown[1]]}    all options: {command} --help"
    if unknown[1] == "--causal":
        hint = "a model's own mask is in use; --mask causal is of attn compute"
        return message, f"{hint}    all options: {command} --help"
    near = get_close_matches(unknown[1], getattr(error, "possibilities", None) or (), 2, 0.7)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    more = f"try: {command} --help"
    if not near and (command == "attn" or "text" in {each.name for each in error.ctx.command.params}):
        more = f"{more}    a text that starts with - goes after --: {command} -- TEXT"
    more = f"{more}    options stand after the command: attn inspect TEXT -q" if command == "attn" else more
    return message, f"{meant}{more}"


def _example(error: Any, command: str, holds: str = "") -> str:
    """The first example of a command with `holds` in it, to paste, before where all options are; "" without one."""
    examples = [each for each in examples_of(command, str(error.ctx.command.help)) if holds in each and "|" not in each]
    return f"{re.split(' {2,}', examples[0])[0]}    all options: " if examples else ""


def _no_text(word: str, error: Any, command: str) -> tuple[str, str]:
    """What to say of a word after a command that takes options alone."""
    return f"{command.removeprefix('attn ')} takes options alone, not {beginning(word)!r}", (
        f"try: {_example(error, command, ' -')}{command} --help"
    )


def _takes(error: Any, words: str) -> bool:
    """Whether the command has the option that `words` begin with; what is no option always helps."""
    option = words.partition(" ")[0]
    names = {name for each in error.ctx.command.params for name in each.opts}
    return not option.startswith("--") or option in names


def _several_texts(extra: Sequence[str], words: Sequence[str], command: str) -> tuple[str, str]:
    """What to say of more arguments than a command takes: a text in several words belongs into quotes."""
    rest = list(words)
    for word in extra:  # the last ones of their kind: an option may have the same value
        if word in rest:
            del rest[len(rest) - 1 - rest[::-1].index(word)]
    before = len(words) - 1 - words[::-1].index(extra[0]) - 1 if extra[0] in words else 0
    if before < 1 or words[before].startswith("-"):
        return f"{beginning(extra[0])!r} is one argument too many", f"a text goes in quotes    try: {command} --help"
    together = [*rest[:before], " ".join([words[before], *extra]), *rest[before + 1 :]]
    return "a text of several words goes in quotes", f"try: {command_words(together)}"


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
