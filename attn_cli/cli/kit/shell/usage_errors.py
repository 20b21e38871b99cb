"""Typer's usage errors, reworded as this program's own: what was given and what was expected."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from attn_cli.cli.kit.shell.commands import COMMANDS, KERNEL_CHECK, declared_command, suggestion
from attn_cli.views.shell_words import beginning, command_words

_KINDS = {
    "int_parsing": "is not a whole number",
    "float_parsing": "is not a number",
    "greater_than_equal": "is not {ge:g} or more",
    "less_than_equal": "is not {le:g} or less",
}


# Options that people expect by another name, and what does the same.
_OTHER_NAMES = {
    "--causal": "--mask causal", "--text": "TEXT without an option", "--prompt": "TEXT without an option",
    "--layers": "--layer", "--topk": "--top", "--top-k": "--top", "--out": "--output", "--query": "--token",
    "--cuda": "--device cuda", "--gpu": "--device cuda", "--cpu": "--device cpu", "--fp16": "--dtype float16",
    "--bf16": "--dtype bfloat16", "--colour": "--color", "--no-color": "--color never", "--words-only": "--words",
    "--no-scale": "--scale off", "--scale": "--color-scale", "--from": "--word",
    "--csv": "--format csv", "--jsonl": "--format jsonl", "--html": "--format html", "--width": "COLUMNS=120",
}  # fmt: skip


# Options that earlier releases had, with what holds without them.
_GIVEN_UP = {"--backend": "outputs are the same with any"}

_OF_COMPUTE = {"--causal": "--mask causal"} | {
    name: name for name in ("--mask", "--softcap", "--bias", "--sink", "--positions", "--fixed", "--alibi")
}
_OF_LONE_NUMBERS = {"attn cost": "-n"}  # the option that a number alone is for
_OF_KERNELS = ("--expect", "--expect-weights", "--q", "--k", "--v")
_OTHER_VALUES = {("--by", "through"): "attn top TEXT --by through"}  # values that another command takes
_OF_MATRICES_BY = {"--query": "--q", "--key": "--k", "--value": "--v", "--queries": "--q", "--keys": "--k",
                   "--values": "--v"}  # fmt: skip
_OF_MAPS = ("--color-scale", "--scale")
_OF_MODELS = ("-l", "--layer", "--layers")
_OF_MATRICES = (".npy", ".npz", ".csv", ".tsv", ".safetensors")


def message_and_hint(error: Any, words: Sequence[str]) -> tuple[str, str]:
    """The message of Click's usage error on the command line `words`, and a hint on what to try."""
    command = getattr(getattr(error, "ctx", None), "command_path", "attn")
    if extra := list(getattr(getattr(error, "ctx", None), "args", ())):
        takes_none = all(each.param_type_name != "argument" for each in error.ctx.command.params)
        if takes_none:
            return _number_alone(extra[0], words, error, command) or _no_text(extra[0], error, command)
        return _several_texts(extra, words, error)
    if known := _choice(error, words):
        return known
    message = _value_error(error) or str(error.format_message()).removesuffix(".")
    if (unknown := re.search(r"No such option: (\S+)", message)) is None:
        example = _example(error, command) if message.startswith("Missing") else ""
        named = next((each for each in (" ".join(words[:2]), *words[:1]) if each in COMMANDS), "")
        of_command = f"attn {named}" if command == "attn" and named else command
        return message, f"try: {example}{of_command} --help"
    return message.split(" (")[0], _other_option(unknown[1], error, words, command)


def _other_option(unknown: str, error: Any, words: Sequence[str], command: str) -> str:
    """The hint for an option that a command doesn't have."""
    more = f"all options: {command} --help"
    if unknown in _GIVEN_UP:
        return f"try: {command_words(_without(unknown, words))}    {_GIVEN_UP[unknown]}"
    other = _OF_MATRICES_BY.get(unknown) if command == "attn compute" else None
    other = other or _OTHER_NAMES.get(unknown)
    if other and _takes(error, other):
        return f"try: {other}    {more}"
    if unknown in _OF_COMPUTE and command != "attn compute":
        return f"a model's own rule is in use; {_OF_COMPUTE[unknown]} is of attn compute"
    if unknown in _OF_KERNELS and command != "attn compute":
        return f"is a kernel right? try: {KERNEL_CHECK}"
    if unknown in _OF_MAPS:
        return f"only inspect, matrix and compute draw maps in colour    {more}"
    if unknown in _OF_MODELS and command == "attn compute":
        return "one attention has no layers; a model's: attn matrix TEXT -m MODEL -l 5"
    if command == "attn" and (moved := _options_moved(words)):
        return f"options go after the command: {moved}"
    near = get_close_matches(unknown, getattr(error, "possibilities", None) or (), 2, 0.7)
    near = near or [name for name in _names(error) if name.lower() == unknown.lower()]
    if near:
        return f"did you mean {' or '.join(near)}? try: {command} --help"
    is_text = any(word.startswith(unknown) and (" " in word or word[1:2].isdigit()) for word in words)
    if is_text and (command == "attn" or "text" in {each.name for each in error.ctx.command.params}):
        return f"a text that starts with - goes after --: {command} -- TEXT"
    if command != "attn":
        return f"try: {command} --help"
    return f"options go after the command: attn inspect TEXT {command_words(words).removeprefix('attn ')}"


def _without(option: str, words: Sequence[str]) -> list[str]:
    """The words of a command line without an option and its value.

    >>> _without("--size", ["top", "--size", "4", "-q"]), _without("--size", ["top", "--size=4"])
    (['top', '-q'], ['top'])
    """
    return [word for before, word in zip(("", *words), words, strict=False)
            if before != option and word != option and not word.startswith(f"{option}=")]  # fmt: skip


def _valued(command: Any) -> set[str]:
    """The options of a command that take a value."""
    return {name for each in command.params if not getattr(each, "is_flag", False)
            for name in each.opts if name.startswith("-")}  # fmt: skip


def _options_moved(words: Sequence[str]) -> str:
    """The command line whose options stood before its command or text, with them behind; "" where there is neither.

    >>> _options_moved(["-m", "gpt2", "river bank"]), _options_moved(["-q", "--layer", "3", "top", "river bank"])
    ('attn inspect "river bank" -m gpt2', 'attn top "river bank" -q --layer 3')
    """
    near = [get_close_matches(word, COMMANDS, 1, 0.65) for word in words if not word.startswith("-")]
    named = next((names[0] for names in near if names), "inspect")
    valued = _valued(declared_command(named))
    options, rest, before = list[str](), list[str](), ""
    for word in words:
        is_option = before in valued or (word.startswith("-") and word != "-")
        (options if is_option else rest).append(word)
        before = "" if before in valued else word
    if not rest:
        return ""
    return command_words([*rest, *options]) if rest[0] in COMMANDS else suggestion([*rest, *options])


def _example(error: Any, command: str, holds: str = "") -> str:
    """The first example of a command with `holds` in it, to paste, before where all options are; "" without one."""
    examples = [each for each in examples_of(command, str(error.ctx.command.help)) if holds in each and "|" not in each]
    return f"{re.split(' {2,}', examples[0])[0]}    all options: " if examples else ""


def examples_of(command: str, words: str) -> list[str]:
    """The example lines of a help text `words`, those after "Examples:", that call `command`, such as "attn top"."""
    return re.findall(rf"^ *(.*{command} .*)", words.partition("Examples:")[2], re.MULTILINE)


def _number_alone(word: str, words: Sequence[str], error: Any, command: str) -> tuple[str, str] | None:
    """The error for a number that stands without the option that it is for; None for others."""
    option = _OF_LONE_NUMBERS.get(command)
    if option is None or not word.isdecimal():
        return None
    at = _place(word, words, _valued(error.ctx.command))
    return f"{word} stands alone: it goes after {option}", (f"try: {command_words([*words[:at], option, *words[at:]])}")


def _no_text(word: str, error: Any, command: str) -> tuple[str, str]:
    """The error for a word after a command that takes options alone."""
    return f"{command.removeprefix('attn ')} takes options alone, not {beginning(word)!r}", (
        f"try: {_example(error, command, ' -')}{command} --help"
    )


def _takes(error: Any, words: str) -> bool:
    """True if the command has the option that `words` begin with; what is no option always helps."""
    option = words.partition(" ")[0]
    return not option.startswith("--") or option in _names(error)


def _several_texts(extra: Sequence[str], words: Sequence[str], error: Any) -> tuple[str, str]:
    """The error for more arguments than a command takes: a text in several words belongs into quotes."""
    command = error.ctx.command_path
    rest, valued = list(words), _valued(error.ctx.command)
    for word in extra:
        if (at := _place(word, rest, valued)) >= 0:
            del rest[at]
    before = _place(extra[0], words, valued) - 1
    if before > 1 and words[before - 1] in ("-H", "--head", "-l", "--layer"):  # several numbers of one option
        joined = ",".join([words[before], *extra])
        line = [*words[:before], joined, *words[before + 1 + len(extra) :]]
        return f"{words[before - 1]} takes one value, and got {len(extra) + 1}", f"try: {command_words(line)}"
    first = f"{beginning(extra[0])!r} is one argument too many"
    if before < 1 or words[before].startswith("-"):
        flags = {name for each in error.ctx.command.params if getattr(each, "is_flag", False) for name in each.opts}
        if words[before] in flags:
            return f"{words[before]} takes no value, and got {beginning(extra[0])!r}", f"try: {command_words(rest)}"
        return first, f"a text goes in quotes    try: {command} --help"
    given = [words[before], *extra]
    if command == "attn compute" and all(word.endswith(_OF_MATRICES) for word in given):
        files = [each for name, word in zip(("--q", "--k", "--v"), given, strict=False) for each in (name, word)]
        return "files of matrices go after --q, --k and --v", f"try: {command_words([*rest[:before], *files])}"
    models = [word for word in given if _is_model(word)]
    if len(models) == 1 and "-m" in _names(error):
        text = " ".join(word for word in given if word not in models)
        line = [*rest[:before], text, "-m", *models, *rest[before + 1 :]]
        return "a model goes after -m", f"try: {command_words(line)}"
    if any(" " in word for word in given):  # in quotes already
        return first, f"try: {command_words(rest)}"
    together = [*rest[:before], " ".join(given), *rest[before + 1 :]]
    return "a text of several words goes in quotes", f"try: {command_words(together)}"


def _place(word: str, words: Sequence[str], valued: set[str]) -> int:
    """Where a word stands last that is no option's value; -1 where it does nowhere.

    >>> _place("bank", ["top", "river", "bank", "-t", "bank"], {"-t"})
    2
    """
    places = [at for at, each in enumerate(words) if each == word and (not at or words[at - 1] not in valued)]
    return places[-1] if places else -1


def _is_model(word: str) -> bool:
    """True if a word names a model's folder or file that is here."""
    return Path(word, "config.json").is_file() or (word.endswith(".gguf") and Path(word).is_file())


def _names(error: Any) -> set[str]:
    return {name for each in error.ctx.command.params for name in each.opts}


def _choice(error: Any, words: Sequence[str]) -> tuple[str, str] | None:
    """The error for a value that isn't among an option's choices; None for other errors."""
    errors, parameter = getattr(error.__cause__, "errors", None), getattr(error, "param", None)
    if errors is None or parameter is None:
        return None
    first = errors()[0]
    choices = re.findall(r"'([^']*)'", first["msg"].rpartition(" is not one of ")[2])
    if not choices:
        return None
    option, value = max(parameter.opts, key=len), str(first["input"])
    if (option, value) == ("--by", "written"):  # its name in earlier versions
        line = [word.replace(value, "output") if word == "--by=written" or before == "--by" else word
                for before, word in zip(("", *words), words, strict=False)]  # fmt: skip
        return "--by written is called --by output", command_words(line)
    return f"{option} {value!r} is unknown", _OTHER_VALUES.get((option, value)) or f"one of {', '.join(choices)}"


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
