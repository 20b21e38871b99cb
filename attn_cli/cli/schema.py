"""Print the JSON Schema of a command's --json output."""

import shutil
import sys
from textwrap import fill

from attn_cli.cli.kit.shell import completion
from attn_cli.cli.kit.shell.signature import argument, takes_options
from attn_cli.views.schemas import schema_names, schema_text
from attn_cli.views.sink import Sink


@takes_options
def schema(
    name: str | None = argument(
        "NAME", f"Print one of {', '.join(schema_names)}.", autocompletion=completion.one_of(lambda: schema_names)
    ),
) -> None:
    """Print the JSON Schema of a command's --json output.

    Without a name: the list of names.

    \b
    Examples:
      attn schema top | jq '.properties.result'
    """
    text = schema_text(name) if name is not None else "\n".join(schema_names) + "\n"
    if name is None and sys.stdout is not None and sys.stdout.isatty():
        text = fill(text, max(shutil.get_terminal_size().columns, 20), break_on_hyphens=False) + "\n"
    with Sink(None, instead="attn schema NAME > FILE keeps it") as sink:
        sink.write(text.encode())
