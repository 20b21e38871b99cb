"""The JSON Schemas of machine output, made from the columns of every answer.

Adding a column keeps the number in `attn.NAME/1`; removing one, or changing its name, type, unit or meaning, raises it.
"""

import json
from importlib import import_module
from typing import Any

from attn_cli.errors import InputError
from attn_cli.fields import COUNT, TEXT, Schema, each, or_none
from attn_cli.summaries.answer import Shape
from attn_cli.summaries.columns import Column, object_schema

schema_names = (
    *("inspect", "matrix", "top", "overall", "knock", "scan_heads", "scan_head", "scan_differences"),
    *("heads", "attending", "parts", "compute", "kinds", "steps", "check", "decode"),
    *("cost", "scale", "nearest", "compare", "plane", "learn", "layers", "env"),
)
"""The names of all JSON Schemas, in the order in which they are listed."""

_MODULES = {  # where the SHAPE of a name stands, if not in a module of that name in summaries/answers
    **dict.fromkeys(("inspect", "matrix", "top", "overall", "heads", "steps"), "summaries.answers.calls"),
    **dict.fromkeys(("scan_heads", "scan_head", "scan_differences"), "scans.show"),
    "parts": "summaries.parts.answer",
}
_SOURCE = {
    "model": Column(TEXT, "the model as named on the command line"),
    "type": Column(TEXT, "the model's type; table or matrices for those"),
    "revision": Column(or_none(TEXT), "commit of a model from the hub, null otherwise"),
    "dtype": Column(TEXT, "precision of the model"),
    "device": Column(TEXT, "the device it ran on"),
    "positions?": Column(or_none(TEXT), "of matrices: what --positions adds, alibi with the slope of each head"),
}
_NESTED: Schema = {
    "description": "a matrix as nested lists",
    "type": "array",
    "items": {"anyOf": [{"type": ["number", "null"]}, {"$ref": "#/$defs/nested"}]},
}


def shape_of(name: str) -> Shape:
    """What a command writes under that schema name."""
    module = import_module(f"attn_cli.{_MODULES.get(name, f'summaries.answers.{name}')}")
    shape: Shape = module.SHAPES[name] if hasattr(module, "SHAPES") else module.SHAPE
    return shape


def schema_text(name: str) -> str:
    """The schema of that name as JSON text; `name` may be written in full, as `attn.top/2`."""
    short = name.removeprefix("attn.").partition("/")[0]
    if short not in schema_names or name.removeprefix("attn.") not in (short, shape_of(short).id.removeprefix("attn.")):
        raise InputError(f"no schema is named {name!r}", f"one of {', '.join(schema_names)}")
    return json.dumps(composed(short), indent=2, ensure_ascii=False) + "\n"


def composed(name: str) -> dict[str, Any]:
    """The whole JSON Schema of the output of a command, by the schema's name."""
    output = shape_of(name)
    properties = {
        "schema": {"const": output.id},
        "attn": TEXT | {"description": "the version of attn that wrote this"},
        "about": object_schema(_SOURCE) | {"description": "where the numbers come from"},
        "index": COUNT | {"description": "the number of the text, from 0, with --lines"},
        **_inputs(output),
        **output.schema(),
        "warnings": each(TEXT) | {"description": "warnings, such as words that a table lacks"},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": output.id,
        "description": f"{output.meaning} Numbers are finite: what is NaN or infinite is null.",
        "type": "object",
        "required": [field for field in properties if field != "index"],
        "properties": properties,
        "$defs": {"nested": _NESTED},
    }


def _inputs(output: Shape) -> dict[str, Schema]:
    from attn_cli.views.writers.input_fields import INPUT  # here: a writer of JSON asks for names of schemas alone

    if output.several_texts:
        return {"inputs": each(INPUT, "a text, empty for random tokens") | {"minItems": 1, "description": "the texts"}}
    return {"input": INPUT}
