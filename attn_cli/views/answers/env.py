"""An installation as one screen: a section a subject, the cached models last."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from attn_cli._version import __version__
from attn_cli.summaries.answers.env import Installation, KeptRuns, OutputStream, Row, install_line
from attn_cli.summaries.report import Report
from attn_cli.text import ascii_visible, counted, decimal_bytes, visible
from attn_cli.views.drawing.cells import fit, packed
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import EXAMPLE

_SIZE = 10  # columns of a model's size
_DEPTHS = {"truecolor": "true colour", "256": "256 colours", "16": "16 colours", "none": "no colour"}


def draw(installation: Installation, report: Report, screen: Screen) -> Iterator[Text | str]:
    """Lines for a bug report: versions, devices, optional packages, output, variables, stored models."""
    sections = {
        "attn": _lines(
            [__version__, f"Python {installation.python}", installation.platform, _compiled(installation)], screen
        ),
        "packages": _lines([f"{name} {number or 'missing'}" for name, number in installation.packages.items()], screen),
        "devices": [line for row in installation.devices for line in _lines(_device(row), screen)] or ["unknown"],
        "extras": _lines(_extras(installation, screen), screen),
        "output": _lines(_output(installation.stdout), screen),
        "variables": _lines(
            [_variable(name, value) for name, value in installation.variables.items()] or ["none"], screen
        ),
        "cache": _lines(["unknown" if installation.cache is None else installation.cache], screen),
    }
    if installation.cache is not None:
        sections["cache"] += _models(installation, screen)
    sections["kept runs"] = _lines(_kept(installation.kept), screen)
    for name, lines in sections.items():
        for number, line in enumerate(lines):
            yield Text.assemble((fit("" if number else name, _label(screen)), BOLD), line)


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: the overview of a text."""
    return ["inspect", EXAMPLE]


def _label(screen: Screen) -> int:
    return 11 if screen.width >= 60 else 10


def _lines(parts: Sequence[str], screen: Screen) -> list[str]:
    return packed([_safe(part, screen) for part in parts], screen.width - _label(screen))


def _safe(text: str, screen: Screen) -> str:
    return ascii_visible(text) if screen.ascii_only else visible(text)


def _compiled(installation: Installation) -> str:
    vectors = installation.compiled_kernel
    if installation.unusable_kernel:
        return "the compiled kernel is of another version: install attn again"
    return "no compiled kernel: attn guide costs" if vectors is None else f"compiled kernel: {vectors}"


def _device(row: Row) -> list[str]:
    parts = [f"{row['device']} {row['name']}"]
    parts += [counted(int(row[noun] or 0), noun.removesuffix("s")) for noun in ("cores", "threads") if row[noun]]
    return parts + ([decimal_bytes(int(row["bytes"]), "GB")] if row["bytes"] else [])


def _extras(installation: Installation, screen: Screen) -> list[str]:
    """The installed and missing extras, and the line that installs the missing, or a line each where it is too long."""
    there = [name for name, missing in installation.extras.items() if not missing]
    lacking = [name for name, missing in installation.extras.items() if missing]
    parts = [f"{', '.join(there)} installed"] if there else []
    together = install_line(",".join(lacking))
    whole = len(together) <= screen.width - _label(screen)
    lines = [together] if whole else [install_line(name) for name in lacking]
    return parts + ([f"{', '.join(lacking)} missing", *lines] if lacking else [])


def _output(stdout: OutputStream) -> list[str]:
    """A line on standard output: a terminal or a pipe, its size and colours."""
    return [
        "a terminal" if stdout.terminal else "no terminal",
        f"{stdout.width} columns",
        _DEPTHS[stdout.depth],
        f"{stdout.encoding or 'no encoding'}{', shown in ASCII' if stdout.ascii_only else ''}",
    ]


def _variable(name: str, value: str | None) -> str:
    return f"{name} is set" if value is None else f"{name}={value}"


def _kept(kept: KeptRuns) -> list[str]:
    """A line on kept runs and unpacked models: their folder, numbers and sizes."""
    if kept.folder is None:
        return ["none: the cache is off"]
    size = f"{decimal_bytes(kept.bytes)} of {decimal_bytes(kept.most)}" if kept.runs else "none yet"
    models = f"{counted(kept.models, 'unpacked .gguf')}, {decimal_bytes(kept.unpacked_bytes)}"
    runs = [kept.folder, *([counted(kept.runs, "run")] if kept.runs else []), size]
    return [*runs, *([models] if kept.models else []), "attn env --clear-cache"]


def _models(installation: Installation, screen: Screen) -> list[str]:
    """The models and their sizes, and how many can't be read."""
    names = [_safe(name, screen) for name in installation.models]
    width = min(max(map(cell_len, names), default=0), screen.width - _label(screen) - _SIZE)
    sizes = [f"{decimal_bytes(size):>{_SIZE}}" for size in installation.models.values()]
    lines = [fit(name, width) + size for name, size in zip(names, sizes, strict=True)]
    lines += _lines([f"{installation.broken} can't be read"], screen) if installation.broken else []
    return lines or ["no models"]
