"""Token ids from a file of --tokens: a JSON list, or a server's log that has one."""

from typing import Any

from attn_cli.errors import InputError
from attn_cli.sources.files.paths import expanded
from attn_cli.text import excerpt

_NAMES = ("prompt_token_ids", "token_ids", "input_ids", "tokens")
_HINT = "a list such as [1, 450, 6635], alone or as prompt_token_ids of a server's log"


def token_ids(file: str) -> tuple[int, ...]:
    """The token ids of a text, at least one, from a JSON file: a list, or a server's log that holds the prompt's.

    In a log they stand under a name such as prompt_token_ids, at the top or in the first of its choices.

    Raises InputError for a file that can't be read or holds none.
    """
    from attn_cli.sources.files.json_document import read_json_document  # here: few texts come as ids

    ids = _ids_in(read_json_document(expanded(file), excerpt(file), InputError, _HINT))
    if isinstance(ids, list) and len(ids) == 1 and isinstance(ids[0], list):
        ids = ids[0]
    if not isinstance(ids, list) or not ids or not all(type(number) is int for number in ids):
        raise InputError(f"{excerpt(file)} holds no list of token ids", _HINT)
    if min(ids) < 0:
        raise InputError(f"{excerpt(file)} holds the id {min(ids)}", "ids are counted from 0")
    return tuple(ids)


def _ids_in(content: Any) -> Any:
    """The list in a JSON value; None where it has none."""
    if not isinstance(content, dict):
        return content
    found = next((content[name] for name in _NAMES if name in content), None)
    choices = content.get("choices")
    if found is None and isinstance(choices, list) and choices and isinstance(choices[0], dict):
        return choices[0].get(_NAMES[0])
    return found
