"""JSON files: documents such as configurations and messages, and numbers."""

import json
from pathlib import Path
from typing import Any

from attn_cli.errors import AttnError, InputError
from attn_cli.sources.files.parse_errors import parse_errors
from attn_cli.sources.files.paths import read_content
from attn_cli.text import excerpt


def read_json_document(path: Path, label: str, error_type: type[AttnError], hint: str) -> Any:
    """The JSON value in a file in UTF-8, called `label` in messages; of a .jsonl file the list of its lines' values."""
    with parse_errors(label, hint, error_type):
        text = read_content(path).decode("utf-8-sig")
        if path.suffix == ".jsonl":
            return [json.loads(line, parse_int=_whole_number) for line in text.split("\n") if line.strip()]
        return json.loads(text, parse_int=_whole_number)


def _whole_number(digits: str) -> int:
    if len(digits) > 1000:
        raise ValueError(f"a number of {len(digits):,} digits")
    return int(digits)


def parse_json(text: str, label: str) -> Any:
    """The JSON value with every number as a float; InputError for repeated keys."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members: dict[str, Any] = {}
        for key, item in pairs:
            if key in members:
                raise InputError(f"{label} has the key {excerpt(key, 60)!r} twice", "keep the one that is meant")
            members[key] = item
        return members

    # integers are parsed as floats, which they become anyway: int() refuses more than 4300 digits
    return json.loads(text, parse_int=float, object_pairs_hook=unique)
