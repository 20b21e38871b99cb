"""Fields of machine output, declared beside what they are read from: rows, objects and JSON Schema are made of them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Object:
    """A JSON object with these values, read from one object."""

    fields: Sequence["Field"]

    def schema(self) -> Schema:
        """The JSON Schema of objects with these fields."""
        return object_schema(self.fields)

    def of(self, thing: object) -> dict[str, Any]:
        """The JSON object with the value of each field, read from `thing`."""
        return made(self.fields, thing)


@dataclass(frozen=True)
class Rows:
    """A JSON list of objects with these values."""

    fields: Sequence["Field"]
    meaning: str = ""

    def schema(self) -> Schema:
        """The JSON Schema of a list of objects with these fields."""
        return each(object_schema(self.fields), self.meaning)

    def of(self, things: Iterable[object]) -> list[dict[str, Any]]:
        """The list of JSON objects with the values of the fields, one read from each of `things`."""
        return [made(self.fields, thing) for thing in things]


@dataclass(frozen=True)
class Field:
    """A named value in a JSON object or a table; `value` reads it, by default the attribute of its name."""

    name: str
    type: Schema | Object | Rows
    meaning: str = ""
    value: Callable[[Any], Any] | None = None
    optional: bool = False

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the field's value."""
        schema = self.type if isinstance(self.type, dict) else self.type.schema()
        return {**schema, **({"description": self.meaning} if self.meaning else {})}


def made(fields: Sequence[Field], thing: object) -> dict[str, Any]:
    """A JSON object: the value of each field, read from `thing`, by the field's name; an optional None is left out."""
    document: dict[str, Any] = {}
    for one in fields:
        value = getattr(thing, one.name) if one.value is None else one.value(thing)
        if value is None and one.optional:
            continue
        document[one.name] = value if value is None or isinstance(one.type, dict) else one.type.of(value)
    return document


def object_schema(fields: Sequence[Field]) -> dict[str, Any]:
    """The JSON Schema of an object with these fields, of which all but optional ones are required."""
    return {
        "type": "object",
        "required": [one.name for one in fields if not one.optional],
        "properties": {one.name: one.schema() for one in fields},
    }
