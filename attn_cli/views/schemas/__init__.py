"""The JSON Schemas of machine output, composed from fragments; tests hold every output to them.

    envelope.json          fields that every output has: source, warnings
    fragments/NAME.json    what `attn.NAME/1` adds: title, description, and the parts of its result

A fragment is found by its file's name: a new output needs no entry anywhere else. Wherever `{"$include": "FILE#A/B"}`
stands, it is replaced by what FILE.json has under key A, key B; fields that stand beside it are merged into that. In
place of `result` a fragment may name the module, such as summaries.answers.cost, whose `FIELDS` declare it; a FILE with
a dot is such a module, too, and A one of its fields or schemas.

The number in `attn.NAME/1` is the fragment's "$id", from which outputs take it too. It changes by one rule: adding a
field keeps the number, because a reader that ignores unknown fields goes on working; removing a field, renaming it or
giving its values another type, unit or meaning raises it.
"""

import json
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from attn_cli.errors import InputError
from attn_cli.fields import Field, Schema, object_schema

_FOLDER = Path(__file__).parent
_FIELDS = ("index", "input", "inputs")  # those that some outputs have


@cache
def schema_names() -> tuple[str, ...]:
    """The names of all JSON Schemas, in the order in which they are listed."""
    names = [file.stem for file in (_FOLDER / "fragments").glob("*.json")]
    return tuple(sorted(names, key=lambda name: (_fragment(name)["place"], name)))


def schema_id(name: str) -> str:
    """`attn.NAME/VERSION`, which every output names as its schema.

    >>> schema_id("top")
    'attn.top/2'
    """
    return _fragment(name)["$id"]


def schema_text(name: str) -> str:
    """The schema of that name as JSON text; `name` may be written in full, as `attn.top/2`.

    Raises InputError for a name that no schema has.
    """
    for short in schema_names():
        if name.removeprefix("attn.") in (short, schema_id(short).removeprefix("attn.")):
            return json.dumps(composed(short), indent=2, ensure_ascii=False) + "\n"
    raise InputError(f"no schema is named {name!r}", f"one of {', '.join(schema_names())}")


def composed(name: str) -> dict[str, Any]:
    """The whole JSON Schema of the output of a command, by the schema's name."""
    envelope, fragment = _resolved(_read("envelope")), _resolved(_fragment(name))
    properties = {
        "schema": {"const": fragment["$id"]},
        "attn": envelope["attn"],
        "source": envelope["source"],
        **{field: fragment[field] for field in _FIELDS if field in fragment},
        "result": _result(fragment),
        "warnings": envelope["warnings"],
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": fragment["$id"],
        "title": fragment["title"],
        "description": fragment["description"],
        "type": "object",
        "required": [field for field in properties if field != "index"],
        "properties": properties,
        **({"$defs": fragment["$defs"]} if "$defs" in fragment else {}),
    }


def _result(fragment: dict[str, Any]) -> dict[str, Any]:
    """The schema of a result: of the fields that a module declares, or of those in the fragment itself."""
    if "fields" in fragment:
        return object_schema(import_module(f"attn_cli.{fragment['fields']}").FIELDS)
    result, optional = fragment["result"], fragment.get("optional", ())
    required = [part for part in result if part not in optional]
    return {"type": "object", "required": required, "properties": result}


def _fragment(name: str) -> dict[str, Any]:
    """The file of one output, as it is written."""
    return _read(f"fragments/{name}")


@cache
def _read(file: str) -> dict[str, Any]:
    """A file of this folder, named without its suffix; the result is shared and must not be changed."""
    return json.loads((_FOLDER / f"{file}.json").read_text("utf-8"))


def _resolved(value: Any) -> Any:
    """A copy of `value` in which every $include is replaced by the piece that it names."""
    if isinstance(value, list):
        return [_resolved(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields: dict[str, Any] = {}
    for key, item in value.items():
        fields = _merged(fields, _piece(item) if key == "$include" else {key: _resolved(item)})
    return fields


def _piece(address: str) -> Any:
    """The value in FILE.json under the keys A, B, for the address "FILE#A/B"."""
    file, keys = address.split("#")
    if "." in file:
        declared: Field | Schema = getattr(import_module(f"attn_cli.{file}"), keys)
        return declared if isinstance(declared, dict) else declared.schema()
    piece: Any = _read(file)
    for key in keys.split("/"):
        piece = piece[key]
    return _resolved(piece)


def _merged(base: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    """`base` with `fields` merged in: objects field by field, all else replaced; new fields come last.

    >>> _merged({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}, "d": 4})
    {'a': {'b': 3, 'c': 2}, 'd': 4}
    """
    merged = dict(base)
    for key, value in fields.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both else value
    return merged
