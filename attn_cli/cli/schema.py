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
        None, "NAME", f"Print one of {', '.join(schema_names)}.", autocompletion=completion.one_of(lambda: schema_names)
    ),
) -> None:
    """Print the JSON Schema of a command's --json output.

    Without a name: the list of names.

    \b
    Examples:
      attn schema top | jq '.properties.result'
    """
    text = _names() if name is None else schema_text(name)
    with Sink(None, instead="attn schema NAME > FILE keeps it") as sink:
        sink.write(text.encode())


def _names() -> str:
    size = None if sys.stdout is None or not sys.stdout.isatty() else shutil.get_terminal_size()
    names = "\n".join(schema_names)
    return f"{names if size is None else fill(names, max(size.columns, 20), break_on_hyphens=False)}\n"
