"""Report versions, devices, cached models and variables."""

import sys
from typing import Any

from attn_cli.cli.kit.options import named as o
from attn_cli.cli.kit.shell.signature import takes_options
from attn_cli.cli.kit.stderr import StatusLine, print_notes
from attn_cli.kept import sizes
from attn_cli.model.source import about_of
from attn_cli.sources.devices import cpu_row, may_have_accelerator
from attn_cli.summaries.answers.env import installation
from attn_cli.summaries.report import Report
from attn_cli.views import open_view
from attn_cli.views.drawing.screen import screen_of


@takes_options
def env(json: bool = o.JSON) -> None:
    """Report versions, devices, cached models and variables.

    For bug reports. Uses no network and changes nothing. Leaves out values that may hold a password. Imports torch
    where a graphics card may be, to list the devices, which takes seconds.

    \b
    Examples:
      attn env
      attn env --json | jq -r '.tables.models[].model'
    """
    from attn_cli.sources.huggingface.load.cache import cached_models  # here, as below: other commands need none of it

    with open_view("json" if json else None) as view:
        warnings: list[str] = []
        devices, (folder, models, broken) = _devices(warnings), cached_models()
        models = models | {str(path): size for path, size in sizes().items()}
        print_notes(warnings, quiet=False)
        screen, encoding = screen_of(sys.stdout), getattr(sys.stdout, "encoding", None) or "no encoding"
        kind = "a terminal" if sys.stdout is not None and sys.stdout.isatty() else "no terminal"
        stdout = f"{kind}, {screen.width} columns, colours {screen.depth}, {encoding}"
        answer = installation(devices, (folder, models, broken), stdout)
        view.show(Report("env", about_of("this installation", "installation"), warnings=tuple(warnings), answer=answer))


def _devices(warnings: list[str]) -> list[Any]:
    if not may_have_accelerator():
        return [cpu_row()]
    try:
        with StatusLine("asking torch for its devices ...", quiet=False):
            from attn_cli.sources.huggingface.anatomy.devices import devices  # here: it loads torch

            return [*devices()]
    except (ImportError, OSError) as error:  # OSError: a library that it links is missing
        warnings.append(f"torch can't be imported: {error}")
        return []
