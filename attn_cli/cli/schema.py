"""The JSON Schema of a command's --json output."""

from typing import Annotated

import typer

from attn_cli.cli.kit import completion
from attn_cli.errors import ExitCode
from attn_cli.views.schemas import schema_names, schema_text
from attn_cli.views.sink import Sink


def schema(
    name: Annotated[
        str | None,
        typer.Argument(help=f"One of {', '.join(schema_names())}.", metavar="NAME", autocompletion=completion.schemas),
    ] = None,
) -> int:
    """The JSON Schema of a command's --json output.

    Without a name, the names.

    \b
    Examples:
      attn schema top | jq '.properties.result'
    """
    text = "".join(f"{line}\n" for line in schema_names()) if name is None else schema_text(name)
    with Sink(None) as sink:
        sink.write(text.encode())
    return ExitCode.DONE
