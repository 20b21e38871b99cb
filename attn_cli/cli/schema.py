"""attn schema: the published JSON Schemas."""

from typing import Annotated

import typer

from attn_cli.errors import ExitCode
from attn_cli.views.schemas import SCHEMAS, schema_text
from attn_cli.views.sink import Sink


def schema(
    name: Annotated[str | None, typer.Argument(help=f"One of {', '.join(SCHEMAS)}.", metavar="NAME")] = None,
) -> int:
    """The JSON Schema of a command's --json output.

    Without a name, the names.

    \b
    Examples:
      attn schema top | jq '.properties.result'
    """
    text = "".join(f"{known}\n" for known in SCHEMAS) if name is None else schema_text(name)
    with Sink(None) as sink:
        sink.write(text.encode())
    return ExitCode.DONE
