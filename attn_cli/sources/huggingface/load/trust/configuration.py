"""Refusal of a config.json that would run code of its own or a foreign attention kernel."""

from pathlib import Path
from typing import Any

from attn_cli.errors import LoadError
from attn_cli.sources.files.json_document import read_json_document

_WORDS = ("model_type",)  # a string wherever a configuration has it
_ATTENTION_KEYS = ("_attn_implementation", "_attn_implementation_internal", "attn_implementation")
_SAFE_ATTENTION = {None, "eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention"}


def check_configuration(path: Path, name: str, *, trusts_code: bool) -> None:
    """Raise LoadError for a config.json that can't be read, or asks for code or an attention kernel from elsewhere."""
    raw = read_json_document(path, f"{name}: config.json", LoadError, "is the download complete?")
    if not isinstance(raw, dict):
        raise LoadError(f"{name}: config.json is not an object", "is it the right file?")
    for place, part in _objects(raw, "config.json"):
        for key in _WORDS:
            if not isinstance(part.get(key, ""), str):
                raise LoadError(f"{name}: {key} is not a word ({place})", "is it the right file?")
        if "auto_map" in part and not trusts_code:
            raise LoadError(
                f"{name} brings code of its own ({place}: auto_map) and was not run",
                "if you trust it, add --trust-remote-code",
            )
        for key in _ATTENTION_KEYS:
            kernel = part.get(key)
            if not (kernel is None or (isinstance(kernel, str) and kernel in _SAFE_ATTENTION)):
                raise LoadError(
                    f"{name} asks for the attention kernel {kernel!r} ({place}: {key}) and was refused",
                    "remove the key from config.json; attn brings its own attention",
                )


def _objects(value: Any, place: str) -> list[tuple[str, dict[str, Any]]]:
    objects, open_values = [], [(place, value)]
    while open_values:
        place, value = open_values.pop()
        if isinstance(value, dict):
            objects.append((place, value))
            open_values += [(f"{place}.{key}", x) for key, x in reversed(value.items())]
        elif isinstance(value, list):
            open_values += [(f"{place}[{i}]", x) for i, x in reversed([*enumerate(value)])]
    return objects
