"""Options of a corpus: which documents are read, and how they are cut."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import typer

from attn_cli.cli.kit.options import named as o
from attn_cli.errors import InputError
from attn_cli.sources.corpora import KINDS, Corpus, open_corpus
from attn_cli.text import excerpt

_reading = partial(typer.Option, rich_help_panel="Reading")


@dataclass(frozen=True)
class CorpusOptions:
    """Options for the documents of a corpus."""

    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="INPUT", show_default=False,
                       help="Read .txt, .jsonl, .csv, .parquet, also packed; folders, globs, datasets; -."),
    ] = None  # fmt: skip
    fields: Annotated[
        list[str] | None,
        _reading("--field", help="Read the text from this field or column; several by commas.", metavar="NAME"),
    ] = None
    kind: Annotated[str | None, _reading("--as", help=f"Read the inputs as {', '.join(KINDS)}.", metavar="KIND")] = None
    chunk: Annotated[
        int | None, _reading("--chunk", help="Split documents into chunks of N tokens.", min=2, metavar="N")
    ] = None
    stride: Annotated[
        int | None,
        _reading("--stride", help="Start a chunk every N tokens, so that chunks overlap.", min=1, metavar="N"),
    ] = None
    sample: Annotated[
        str | None, _reading("--sample", help="Scan a random sample, drawn with --seed: 5% or 10000.", metavar="PART")
    ] = None
    seed: o.Seed = None

    def corpus(self) -> Corpus:
        """The documents; InputError for options that don't go together, and for no input."""
        if not self.inputs:
            raise InputError("no INPUT", "give files, folders, globs, or - for standard input")
        if self.stride is not None and self.chunk is None:
            raise InputError("--stride without --chunk", "--chunk N splits documents into chunks of N tokens")
        names = [name for each in self.fields or () for name in each.split(",")]
        if (self.seed or 0) >= 2**63:
            raise InputError(f"--seed {excerpt(str(self.seed), 40)} is too large", "a number below 2**63")
        return open_corpus(self.inputs, fields=names, kind=self.kind, sample=self.sample, seed=self.seed or 0)
