"""JSON documents, such as configurations and messages."""

import json
from pathlib import Path
from typing import Any

from attn_cli.errors import AttnError
from attn_cli.sources.files.parse_errors import parse_errors
from attn_cli.sources.files.paths import read_content


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
