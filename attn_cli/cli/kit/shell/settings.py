"""Defaults of options that a person sets once: `ATTN_*` variables, and a TOML file where such files belong."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from attn_cli.cli.kit.run.sizes import bytes_of
from attn_cli.errors import InputError, reason
from attn_cli.kept.folder import DEFAULT_BYTES, KeptFolder, cache_folder
from attn_cli.kept.unpacked import UnpackedModels
from attn_cli.ranks import ranks
from attn_cli.views.shell_words import command_words

# The options that may be set, by their names in the file; the variable of `color_scale` is ATTN_COLOR_SCALE, and
# `plain` has none.
NAMES = ("model", "device", "device_map", "dtype", "offline", "color", "color_scale", "plain", "quiet",
         "verbose", "cache", "cache_size")  # fmt: skip
_SWITCHES = ("offline", "plain", "quiet", "verbose")
_OTHER_VARIABLES = ("ATTN_CACHE", "ATTN_CACHE_SIZE", "ATTN_CONFIG", "ATTN_DEBUG", "ATTN_HUB_TIMEOUT", "ATTN_PAGER")
_OFF = ("", "0", "false", "no", "off")
_MOST_BYTES = 10**5  # of the file; what has no end, such as a device, is read no further
_TABLES_ONLY = ("compute", "learn", "nearest")  # commands whose --model names a table of words


Note = Callable[[str], object]


class Setting(NamedTuple):
    """The `value` that a setting gives an option as its default, and its `origin`: a variable, or the file."""

    value: str | bool
    origin: str


def settings_file() -> Path:
    """The file of settings, there or not: ATTN_CONFIG, or attn/config.toml where XDG puts configuration."""
    own = os.environ.get("ATTN_CONFIG")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    try:
        return Path(base).expanduser() / "attn" / "config.toml"
    except RuntimeError:  # nobody knows the home folder
        return Path(base) / "attn" / "config.toml"


def settings(note: Note = lambda text: None) -> dict[str, Setting]:
    """All settings by name, from environment variables, else from the file of settings; InputError for a wrong file.

    note  is told of a file that this user may not read, such as one in another's home, and of a variable that is nearly
          called as one that is read: they set nothing
    """
    path = settings_file()
    read = _read(path, note)
    for text in _mistyped_variables():
        note(text)
    of_file = {name: Setting(_checked(name, value, str(path)), str(path)) for name, value in read.items()}
    variables = {name: (f"ATTN_{name.upper()}", os.environ.get(f"ATTN_{name.upper()}")) for name in NAMES}
    variable, plain = variables.pop("plain")
    if (plain or "").lower() not in _OFF:
        raise InputError(f"{variable} is no longer read", f"try: {command_words([*sys.argv[1:], '--plain'])}")
    of_variables = {
        name: Setting(value.lower() not in _OFF if name in _SWITCHES else value, variable)
        for name, (variable, value) in variables.items()
        if value is not None and (value or name in _SWITCHES)
    }
    return of_file | of_variables


def kept_folder() -> KeptFolder | None:
    """The folder where finished runs are stored, so that a later command needs no model; None where none is stored.

    By the settings `cache` and `cache_size`.
    """
    path, size = _cache()
    return None if path is None or not size else KeptFolder(path / "runs", size)


def unpacked_models() -> UnpackedModels | None:
    """The folder of models from .gguf files that are stored unpacked, to load faster; None where none is.

    By the settings `cache` and `cache_size`.
    """
    path, size = _cache()
    return None if path is None or not size else UnpackedModels(path / "models", size)


def _cache() -> tuple[Path | None, int]:
    """The cache's folder, and the bytes that runs may take in it, and models; none for processes that share a model."""
    if ranks() > 1:
        return None, 0
    given = settings()
    path = cache_folder(str(given["cache"].value) if "cache" in given else os.environ.get("ATTN_CACHE"))
    most = given.get("cache_size")
    return path, DEFAULT_BYTES if most is None else bytes_of(str(most.value), most.origin)


def defaults_for(command: str, parameters: Iterable[str], note: Note) -> dict[str, Any]:
    """The user's settings that a command takes, as defaults of its parameters.

    note  is called with each sentence on settings that were ignored
    """
    names = set(parameters)
    values = {name: setting.value for name, setting in settings(note).items() if name in names}
    if command in _TABLES_ONLY and "model" in values:
        from attn_cli.sources import is_table  # here: it loads NumPy

        if not is_table(str(values["model"])):
            del values["model"]
    return values


def _mistyped_variables() -> list[str]:
    """A note for every variable whose name is nearly that of one that is read."""
    known = [*(f"ATTN_{name.upper()}" for name in NAMES), *_OTHER_VARIABLES]
    others = [name for name in sorted(os.environ) if name.startswith("ATTN_") and name not in known]
    near = [(name, get_close_matches(name, known, 1, 0.85)) for name in others]
    return [f"{name} is not read; did you mean {found[0]}?" for name, found in near if found]


def _read(path: Path, note: Note) -> Mapping[str, Any]:
    own = bool(os.environ.get("ATTN_CONFIG"))
    try:
        if not (own or path.exists()):
            return {}
        if path.is_fifo():
            raise OSError("it is a pipe")  # which may be waited for without an end
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES)
        import tomllib  # here: without a file of settings nothing of it is needed

        return tomllib.loads(content.decode("utf-8"))
    except PermissionError as error:
        note(f"settings in {path} are left out: {reason(error)}")
        return {}
    except (OSError, ValueError, RecursionError) as error:  # TOML's errors, and those of UTF-8, are ValueErrors
        raise InputError(f"settings in {path} can't be read: {reason(error)}", "attn guide settings") from None


def _checked(name: str, value: Any, file: str) -> str | bool:
    if name not in NAMES:
        near = get_close_matches(name, NAMES, 1)
        hint = f"did you mean {near[0]}?" if near else f"one of {', '.join(NAMES)}"
        raise InputError(f"{file}: there is no setting {name!r}", hint)
    if isinstance(value, bool) != (name in _SWITCHES) or not isinstance(value, bool | str):
        raise InputError(f"{file}: {name} must be {'true or false' if name in _SWITCHES else 'text in quotes'}",
                         "attn guide settings")  # fmt: skip
    return value
