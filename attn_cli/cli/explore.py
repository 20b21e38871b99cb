"""Explore in the terminal: all heads, one matrix, the text, a cell."""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from attn_cli.cli.kit.options.command import ReadOptions, opened
from attn_cli.cli.kit.run.text_run import left_out_note, texts_and_reading
from attn_cli.cli.kit.shell.commands import imported_command
from attn_cli.cli.kit.shell.signature import current, takes_options
from attn_cli.cli.kit.stderr import Progress, print_notes
from attn_cli.errors import ExitCode, InputError, optional
from attn_cli.explore.command_line import LineOrigin
from attn_cli.explore.loading import keys_dropped
from attn_cli.explore.scene import Scene
from attn_cli.model.source import Source
from attn_cli.recording import Recording
from attn_cli.sources import DEFAULT_MODEL, is_model, is_recording
from attn_cli.sources.files.paths import nearest_name
from attn_cli.sources.memory import free_memory
from attn_cli.sources.recordings import RecordedSource
from attn_cli.summaries.reducers.record import MemoryBudget, record
from attn_cli.summaries.told.story import opened_to_tell
from attn_cli.views.drawing.screen import screen_of

_TERMINAL = Path("/dev/tty")


@takes_options
def explore(options: ReadOptions) -> ExitCode:
    """Explore in the terminal: all heads, one matrix, the text, a cell.

    TEXT may be a recording (FILE.attn), which needs no model. Arrows move, enter goes deeper, ? lists all keys, y
    shows the attn line of the current view, q quits.

    \b
    Examples:
      attn explore "he sat on the river bank" -m ./my-model
      attn explore run.attn
    """
    if not _is_terminal() or os.environ.get("TERM") == "dumb":
        raise InputError("attn explore needs a terminal", "attn inspect prints, -o page.html makes a page")
    optional("textual", "explore", "attn explore needs")
    options = _of_recording(options)
    reader = _Reader(options)
    if not sys.stdin.isatty():  # the text came from there
        with _TERMINAL.open("rb") as terminal:
            os.dup2(terminal.fileno(), sys.stdin.fileno())
    with keys_dropped():
        recording = reader.first()
        if not recording.layers:
            raise InputError("no layer attends to anything here", "choose other layers with --layer")
        from attn_cli.explore.app import Outside, run  # here: options are checked and the text is read without Textual

    outside = Outside(_origin(options), _write, None if is_recording(options.model) else reader.read)
    return ExitCode(run(Scene(recording, screen_of(sys.stdout)), outside))


def _of_recording(options: ReadOptions) -> ReadOptions:
    text = options.text
    if text is None or not is_recording(text):
        return options
    path = Path(text).expanduser()
    if not path.is_file():
        raise InputError(f"no file {text}", nearest_name(path, "a recording is a file that ends in .attn"))
    if options.model != DEFAULT_MODEL:
        raise InputError(f"{text} is a recording, and --model was given, too", "leave out one of them")
    return replace(options, model=text, text=None)


def _is_terminal() -> bool:
    shows = all(stream is not None and stream.isatty() for stream in (sys.stdout, sys.stderr))
    return shows and sys.stdin is not None and (sys.stdin.isatty() or os.access(_TERMINAL, os.R_OK))


class _Reader:
    """Reads texts with what the options name, each in one pass whose every layer is kept."""

    def __init__(self, options: ReadOptions) -> None:
        self.options, self.selection = options, options.selection
        texts, self.reading = texts_and_reading(options, options.model)
        self.text = next(texts)

    @cached_property
    def source(self) -> Source:
        model = self.options.model
        opening = partial(self.options.open, model, quiet=False, **self.reading)
        return opened_to_tell(lambda with_head: opening(predicts=with_head and is_model(model)))

    def first(self) -> Recording:
        assert isinstance(self.text, str)  # never an error: without `lines` those are raised
        budget = MemoryBudget(free_memory())
        with Progress(len(self.source.planned_layers(self.selection)), 1, 0, quiet=False, verbose=False) as progress:
            recording = self.read(self.text, progress.step, budget, trial=partial(progress.go_on, "words and heads"))
        print_notes(filter(None, [*recording.prompt.warnings, left_out_note(budget)]), quiet=False)
        return recording

    def read(self, text: str, step: Callable[[], None], budget: MemoryBudget | None = None, **more: Any) -> Recording:
        keeping = partial(record, self.source, text, selection=self.selection, pair=self.options.pair, **more)
        recording = keeping(budget=budget or MemoryBudget(free_memory()), step=step, tells=True)
        kept = self.source.recording if isinstance(self.source, RecordedSource) else recording
        return replace(recording, told=kept.told)


def _origin(options: ReadOptions) -> LineOrigin:
    if is_recording(options.model):
        return LineOrigin((), ("-m", options.model))
    given = current.get()
    assert given is not None
    text, more = given.words(("text", "file")), given.words_without(("text", "file", "layer", "head"))
    before = ["--"] if text and text[0].startswith("-") and not given.has("file") else []
    return LineOrigin((*before, *text), tuple(more))


def _write(recording: Recording, words: list[str]) -> None:
    token = opened.set(RecordedSource(recording, "the explorer's text"))
    try:
        imported_command(words[0]).main(args=[*words[1:], "-q"], prog_name=f"attn {words[0]}", standalone_mode=False)
    finally:
        opened.reset(token)
