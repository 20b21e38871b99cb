"""Walk around: all heads, a head's matrix, the text, one cell."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated

import typer

from attn_cli.call import Call
from attn_cli.cli.kit import options as o
from attn_cli.cli.kit.dataclass_options import takes_options
from attn_cli.cli.kit.invocation import current
from attn_cli.cli.kit.layers_and_heads import selection_of
from attn_cli.cli.kit.picking import picked_tokens
from attn_cli.cli.kit.progress import Progress
from attn_cli.cli.kit.read_texts import Texts
from attn_cli.cli.kit.shared_options import LoadOptions, LookOptions, TextOptions
from attn_cli.cli.kit.stderr import print_notes
from attn_cli.errors import ExitCode, InputError
from attn_cli.explore.command_line import Origin
from attn_cli.explore.scene import Scene
from attn_cli.explore.session import Outside, Session
from attn_cli.recording import Recording
from attn_cli.selection import Selection
from attn_cli.sources import Source
from attn_cli.summaries.answers.record import recorded
from attn_cli.views.drawing.screen import screen_of

_OWN = ("text", "file", "layer", "head", "color", "no_mouse", "quiet")  # what a line of another command needn't say
_INSTEAD = "attn inspect prints, -o page.html makes a page"


@dataclass(frozen=True)
class ExploreOptions(LoadOptions, LookOptions, TextOptions):  # the fields of the last base come first
    """The text, the model, its layers and heads, and how it is loaded."""


@takes_options
def explore(
    options: ExploreOptions,
    no_mouse: Annotated[bool, typer.Option("--no-mouse", help="Leave the mouse to the terminal.")] = False,
    color: o.Color = "auto",
    quiet: o.Quiet = False,
) -> ExitCode:
    """Walk around: all heads, a head's matrix, the text, one cell.

    TEXT may be a recording (FILE.attn): then no model is needed. Arrows move, enter goes deeper, ? lists all keys, y
    says the attn line of what is seen, q leaves.

    \b
    Examples:
      attn explore "he sat on the river bank" -m ./my-model
      attn explore --file prompt.txt -m gpt2
      attn explore "The capital of France is" -m gpt2 --generate 8
      attn explore run.attn
    """
    o.one_of(color, o.COLOR_CHOICES, "--color")
    _check_terminal()
    screen = screen_of(sys.stdout, color)
    recording, read = _read(options, quiet=quiet)
    if not recording.layers:
        raise InputError("no layer attends to anything here", "choose other layers with --layer")
    outside = Outside(_origin(options), picked_tokens, _write, read)
    # imported here: the options are checked, and the text is read, without it
    from attn_cli.explore.app import run

    return ExitCode(run(Session(Scene(recording, screen), outside), mouse=not no_mouse))


def _check_terminal() -> None:
    """InputError where there is no terminal to walk around in, or Textual is not there."""
    if not _is_terminal() or os.environ.get("TERM") == "dumb":
        raise InputError("attn explore needs a terminal", _INSTEAD)
    if find_spec("textual") is None:
        raise InputError("attn explore needs textual", "pip install 'attn-cli[explore]'")


def _is_terminal() -> bool:
    """Whether keys come from a terminal, and whatever is written goes to one."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def _read(options: ExploreOptions, *, quiet: bool) -> tuple[Recording, Callable[[str, Callable[[], None]], Recording]]:
    """The recording of the text, and how another text is read."""
    reading = options.reading()
    text = next(Texts("" if options.without_text else options.text, options.file, lines=False, quiet=quiet))
    assert isinstance(text, str)  # never an error: without `lines` those are raised
    selection = selection_of(options.layer, options.head)
    source = options.open(options.model, quiet=quiet, projections=options.projections, **reading)

    def read(text: str, step: Callable[[], None]) -> Recording:
        return _recording(source, text, options.pair, selection, step)

    layers = len(source.planned_layers(selection))
    with Progress(layers, 1, 0, quiet=quiet, verbose=False) as progress:
        recording = read(text, progress.step)
    print_notes(recording.prompt.warnings, quiet=quiet)
    return recording, read


def _recording(
    source: Source, text: str, pair: str | None, selection: Selection, step: Callable[[], None]
) -> Recording:
    """One pass over a text; `step` is called after every layer."""
    prompt = source.read([text], pair)[0]
    layers = []

    def visit(call: Call) -> None:
        layers.append(recorded(call))
        step()

    source.each([prompt], selection, visit)
    return Recording(dict(source.about), prompt, tuple(layers))


def _origin(options: ExploreOptions) -> Origin:
    """The words of the command line that say what is read."""
    given = current.get()
    assert given is not None
    text = [word for each in given.given if each.name in ("text", "file") for word in each.words]
    text = ["--", *text] if text and text[0].startswith("-") and not given.has("file") else text
    return Origin(tuple(text), tuple(given.words_without(_OWN)))


def _write(recording: Recording, words: list[str]) -> None:
    """Run a command line of attn on a recording."""
    raise InputError("recordings can't be written yet")
