"""A JSON file that is no matrix: a configuration, messages."""

import json
from pathlib import Path
from typing import Any

from attn_cli.errors import AttnError
from attn_cli.sources.files.content import read_content
from attn_cli.sources.files.parse_errors import parse_errors


def read_json_document(path: Path, label: str, error_type: type[AttnError], hint: str) -> Any:
    """The JSON value in a file in UTF-8, called `label` in messages.

    hint  what to do, said with the error

    Raises an error of `error_type` for a file that can't be read or isn't JSON, LimitError for one larger than the free
    memory.
    """
    with parse_errors(label, hint, error_type):
        return json.loads(read_content(path).decode("utf-8-sig"), parse_int=_whole_number)


def _whole_number(digits: str) -> int:
    """The number; ValueError for thousands of digits, where Python's own message would advise to raise its limit."""
    if len(digits) > 1000:
        raise ValueError(f"a number of {len(digits):,} digits")
    return int(digits)
