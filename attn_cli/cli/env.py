"""Report versions, devices, cached models and variables."""

import sys
from typing import Annotated

import typer

from attn_cli.cli.kit.options import named as o
from attn_cli.cli.kit.run.kept_places import kept_folder, unpacked_models
from attn_cli.cli.kit.shell.signature import takes_options
from attn_cli.cli.kit.stderr.lines import print_notes
from attn_cli.cli.kit.stderr.status_line import StatusLine
from attn_cli.errors import ExitCode
from attn_cli.sources.devices import cpu_row, may_have_accelerator
from attn_cli.summaries.answers.env import KeptRuns, OutputStream, Row, installation
from attn_cli.summaries.report import Report
from attn_cli.text import decimal_bytes
from attn_cli.views import open_view
from attn_cli.views.drawing.screen import screen_of


@takes_options
def env(
    clear_cache: Annotated[
        bool, typer.Option("--clear-cache", help="Remove the runs and unpacked models that are kept for a second look.")
    ] = False,
    json: o.Json = False,
) -> ExitCode:
    """Report versions, devices, cached models and variables.

    For bug reports. No network is used, and nothing is changed but by --clear-cache. Values of variables that may hold
    a password are left out. torch is imported where a graphics card may be, to list the devices, which takes seconds.

    \b
    Examples:
      attn env
      attn env --json | jq -r '.result.cache.models[].name'
      attn env --clear-cache
    """
    with open_view("json" if json else None) as view:
        warnings: list[str] = []
        devices = _devices(warnings)
        kept = _kept(clear=clear_cache)
        answer = installation(devices, _cache(warnings), _stdout(), kept)
        source = {"model": "this installation", "type": "installation", "revision": None, "dtype": "none",
                  "device": "none"}  # fmt: skip
        print_notes(warnings, quiet=False)
        view.show(Report("env", source, warnings=tuple(warnings), answer=answer))
    return ExitCode.DONE


def _kept(*, clear: bool) -> KeptRuns:
    """The runs and models that are kept; with `clear` none, and a note on how much is free now."""
    folder, unpacked = kept_folder(), unpacked_models()
    if folder is None or unpacked is None:
        return KeptRuns()
    if clear:
        freed = f"{decimal_bytes(folder.clear())} of kept runs and {decimal_bytes(unpacked.clear())} of unpacked models"
        print_notes([f"{freed} removed"], quiet=False)
    files, models = folder.files(), unpacked.models()
    sizes = [sum(each.size for each in some) for some in (files, models)]
    return KeptRuns(str(folder.path), len(files), sizes[0], folder.most, len(models), sizes[1])


def _devices(warnings: list[str]) -> list[Row]:
    """The CPU alone, or the devices that torch knows; none, and a warning, where it can't be imported."""
    if not may_have_accelerator():
        return [cpu_row()]
    try:
        with StatusLine("asking torch for its devices ...", quiet=False):
            from attn_cli.sources.huggingface.load.device import devices  # here: it loads torch

            return [*devices()]
    except (ImportError, OSError) as error:  # OSError: a library that it links is missing
        warnings.append(f"torch can't be imported: {error}")
        return []


def _cache(warnings: list[str]) -> tuple[str | None, dict[str, int], int]:
    """The cache's folder, its models, and how many entries are broken; None and a warning if its library is missing."""
    try:
        from attn_cli.sources.huggingface.load.cache import cached_models
    except ImportError as error:
        warnings.append(f"huggingface_hub can't be imported: {error}")
        return None, {}, 0
    return cached_models()


def _stdout() -> OutputStream:
    screen = screen_of(sys.stdout)
    return OutputStream(
        terminal=sys.stdout is not None and sys.stdout.isatty(),
        width=screen.width,
        depth=screen.depth,
        encoding=getattr(sys.stdout, "encoding", None),
        ascii_only=screen.ascii_only,
    )
