"""The types of machine output, of which JSON Schemas are made."""

from typing import Any

Schema = dict[str, Any]

COUNT: Schema = {"type": "integer", "minimum": 0}
INTEGER: Schema = {"type": "integer"}
NUMBER: Schema = {"type": ["number", "null"]}  # what is NaN or infinite is null
FINITE: Schema = {"type": "number"}
SHARE: Schema = NUMBER | {"minimum": 0, "maximum": 1.0001}
POSITIVE: Schema = NUMBER | {"minimum": 0}
COSINE: Schema = NUMBER | {"minimum": -1.0001, "maximum": 1.0001}
TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
NESTED: Schema = {"$ref": "#/$defs/nested"}  # an array as nested lists


def or_none(schema: Schema) -> Schema:
    """The same JSON Schema, but that it allows null, too."""
    return {**schema, "type": [schema["type"], "null"]}


def each(item: Schema, meaning: str = "", count: int | None = None) -> Schema:
    """The JSON Schema of a list of items that `meaning` describes, `count` of them if it is fixed."""
    items = {**item, "description": meaning} if meaning else item
    return {"type": "array", "items": items} | ({} if count is None else {"minItems": count, "maxItems": count})
