"""The options that say what is written, and where: format, file."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from attn_cli.cli.kit.options import named as o
from attn_cli.cli.kit.shell import completion
from attn_cli.cli.kit.shell.signature import current, option
from attn_cli.cli.kit.stderr import print_notes
from attn_cli.errors import InputError
from attn_cli.text import excerpt
from attn_cli.views import open_view
from attn_cli.views.formats import format_names, names_in_words
from attn_cli.views.view import DEFAULTS, View, ViewSettings


@dataclass(frozen=True, repr=False, eq=False)
class OutputOptions:
    """Options for the output's file and format, of every command, also those without a model."""

    format: str | None = option(
        None, "--format -f FORMAT", f"Write {names_in_words()}.", autocompletion=completion.one_of(format_names)
    )
    json: bool = o.JSON
    output: str | None = option(None, "--output -o FILE", "Write to a file; its suffix chooses the format.")
    force: bool = o.output(False, "--force", "Replace an existing output file.")
    quiet: bool = o.QUIET

    @contextmanager
    def view(self, settings: ViewSettings = DEFAULTS) -> Iterator[View]:
        """Context manager: the view, which writes answers in the form (terminal, JSON ...) that the options choose."""
        if self.json and self.format not in (None, "json"):
            raise InputError(f"--json and --format {self.format} at once", "give one of them")
        name = "json" if self.json else self.format
        invocation = None if self.quiet else current.get()
        settings = replace(settings, invocation=invocation)
        with open_view(name, self.output, settings, force=self.force) as view:
            yield view
        if self.output is not None and sys.stderr.isatty():
            print_notes([f"wrote {excerpt(self.output)}"], quiet=self.quiet)
