"""The JSON Schemas of machine output, one file per command; tests hold every output to them."""

from pathlib import Path

from attn_cli.errors import InputError

SCHEMAS = (
    "inspect",
    "matrix",
    "top",
    "overall",
    "heads",
    "compute",
    "steps",
    "check",
    "decode",
    "cost",
    "scale",
    "nearest",
    "compare",
    "plane",
    "learn",
    "layers",
)


def schema_text(name: str) -> str:
    """The schema of `attn.NAME/1` as JSON text; `name` may be written in full."""
    short = name.removeprefix("attn.").removesuffix("/1")
    if short not in SCHEMAS:
        raise InputError(f"no schema is named {name!r}", f"one of {', '.join(SCHEMAS)}")
    return (Path(__file__).parent / "fragments" / f"{short}.json").read_text("utf-8")
