"""An installation as one screen: a section a subject, and as many cached models as fit."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from attn_cli._version import __version__
from attn_cli.summaries.answers.env import Installation, OutputStream, Row, install_line
from attn_cli.summaries.report import Report
from attn_cli.text import ascii_visible, counted, decimal_bytes, visible
from attn_cli.views.drawing.cells import fit, packed
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import EXAMPLE

_LINES = 24  # of a screen, its header included
_FEWEST_MODELS = 3  # lines about them, however much else there is
_MOST_DEVICES = 4  # lines
_MOST_SETTINGS = 3  # lines
_MOST_VARIABLES = 5  # lines
_SIZE = 10  # columns of a model's size
_DEPTHS = {"truecolor": "true colour", "256": "256 colours", "16": "16 colours", "none": "no colour"}


def draw(installation: Installation, report: Report, screen: Screen) -> Iterator[Text | str]:
    """Versions, devices, extras, standard output, variables, and the models in what is left of the screen."""
    sections = {
        "attn": _lines(
            [__version__, f"Python {installation.python}", installation.platform, _compiled(installation)], screen
        ),
        "packages": _lines([f"{name} {number or 'missing'}" for name, number in installation.packages.items()], screen),
        "devices": _shortened(
            [line for row in installation.devices for line in _lines(_device(row), screen)] or ["unknown"],
            _MOST_DEVICES,
        ),
        "extras": _lines(_extras(installation, screen), screen),
        "output": _lines(_output(installation.stdout), screen),
        "settings": _shortened(_lines(_settings(installation), screen), _MOST_SETTINGS),
        "variables": _shortened(
            _lines([_variable(name, value) for name, value in installation.variables.items()] or ["none"], screen),
            _MOST_VARIABLES,
        ),
        "cache": _lines(["unknown" if installation.cache is None else installation.cache], screen),
    }
    left = _LINES - 1 - sum(map(len, sections.values()))
    if installation.cache is not None:
        sections["cache"] += _models(installation, screen, max(left, _FEWEST_MODELS))
    for name, lines in sections.items():
        for number, line in enumerate(lines):
            yield Text.assemble((fit("" if number else name, _label(screen)), BOLD), line)


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The overview of a text."""
    return ["inspect", EXAMPLE]


def _label(screen: Screen) -> int:
    """The columns of the sections' names."""
    return 11 if screen.width >= 60 else 10


def _lines(parts: Sequence[str], screen: Screen) -> list[str]:
    """Parts from outside, made safe for the screen, in lines beside the sections' names."""
    return packed([_safe(part, screen) for part in parts], screen.width - _label(screen))


def _safe(text: str, screen: Screen) -> str:
    return ascii_visible(text) if screen.ascii_only else visible(text)


def _shortened(lines: list[str], most: int) -> list[str]:
    """At most that many lines, the last of which then says how many there are more."""
    return lines if len(lines) <= most else [*lines[: most - 1], f"and {len(lines) - most + 1} lines more: --json"]


def _compiled(installation: Installation) -> str:
    """Whether looking goes by compiled code."""
    vectors = installation.compiled_kernel
    if installation.unusable_kernel:
        return "the compiled kernel is of another version: install attn again"
    return "no compiled kernel: attn guide costs" if vectors is None else f"compiled kernel: {vectors}"


def _device(row: Row) -> list[str]:
    """A device's name for --device, the maker's, and its sizes."""
    parts = [f"{row['device']} {row['name']}"]
    parts += [counted(int(row[noun] or 0), noun.removesuffix("s")) for noun in ("cores", "threads") if row[noun]]
    return parts + ([decimal_bytes(int(row["bytes"]), "GB")] if row["bytes"] else [])


def _extras(installation: Installation, screen: Screen) -> list[str]:
    """Which are installed, which not, and the line that installs those, or where it is too long a line for each."""
    there = [name for name, missing in installation.extras.items() if not missing]
    lacking = [name for name, missing in installation.extras.items() if missing]
    parts = [f"{', '.join(there)} installed"] if there else []
    together = install_line(",".join(lacking))
    whole = len(together) <= screen.width - _label(screen)
    lines = [together] if whole else [install_line(name) for name in lacking]
    return parts + ([f"{', '.join(lacking)} missing", *lines] if lacking else [])


def _output(stdout: OutputStream) -> list[str]:
    """Whether standard output is a terminal, and what it can show."""
    return [
        "a terminal" if stdout.terminal else "no terminal",
        f"{stdout.width} columns",
        _DEPTHS[stdout.depth],
        f"{stdout.encoding or 'no encoding'}{', shown in ASCII' if stdout.ascii_only else ''}",
    ]


def _settings(installation: Installation) -> list[str]:
    """Every default that is set, and where; without any, the file that would hold them."""
    rows = [f"{row['name']} = {row['value']} ({row['origin']})" for row in installation.settings]
    return rows or [f"none; {installation.config} would hold them"]


def _variable(name: str, value: str | None) -> str:
    return f"{name} is set" if value is None else f"{name}={value}"


def _models(installation: Installation, screen: Screen, most: int) -> list[str]:
    """At most that many lines: the models and their sizes, how many there are more, and how many can't be read."""
    models = list(installation.models.items())
    broken = [f"{installation.broken} can't be read"] if installation.broken else []
    fitting = len(models) if len(models) + len(broken) <= most else most - 1
    more = [f"and {len(models) - fitting:,} more"] if len(models) > fitting else []
    total = [f"{decimal_bytes(sum(installation.models.values()))} in all"] if more else []
    names = [_safe(name, screen) for name, _ in models[:fitting]]
    width = min(max(map(cell_len, names), default=0), screen.width - _label(screen) - _SIZE)
    sizes = [f"{decimal_bytes(size):>{_SIZE}}" for _, size in models[:fitting]]
    lines = [fit(name, width) + size for name, size in zip(names, sizes, strict=True)]
    lines += _lines([*more, *total, *broken], screen)
    return lines or ["no models"]
