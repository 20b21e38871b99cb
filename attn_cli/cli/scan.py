"""What every head does over a whole corpus: resumable, exact, as Parquet."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from attn_cli.cli.kit import options as o
from attn_cli.cli.kit.corpus_options import CorpusOptions
from attn_cli.cli.kit.dataclass_options import takes_options
from attn_cli.cli.kit.layers_and_heads import selection_of
from attn_cli.cli.kit.shared_options import LoadOptions, LookOptions
from attn_cli.errors import ExitCode, InputError
from attn_cli.text import counted


@dataclass(frozen=True)
class ScanModelOptions(LoadOptions, LookOptions):
    """The options of the model, its layers and heads."""

    COMMANDS_OWN_AFTER: ClassVar[str] = "head"


@takes_options
def scan(
    options: ScanModelOptions,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="The folder of the results.", metavar="DIR")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="End at a record that can't be scanned.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Throw away another scan in the folder.")] = False,
    quiet: o.Quiet = False,
    *,
    documents: CorpusOptions,
) -> ExitCode:
    """What every head does over a whole corpus: resumable, exact, as Parquet.

    The same line goes on where an earlier one was interrupted.

    \b
    Examples:
      attn scan reviews.jsonl -m gpt2 -o reviews
      attn scan "corpus/*.txt.gz" -m ./my-model -o corpus-scan --chunk 512
      attn scan lines.txt -m ./my-model -o part --sample 5%
    """
    from attn_cli.scans.scan import scan as scan_corpus  # here, for --help

    corpus = documents.corpus()
    if output is None:
        raise InputError("no folder for the results", "add -o DIR")
    source = options.open(options.model, quiet=quiet, projections=options.projections)
    done = scan_corpus(
        source, corpus, output, selection=selection_of(options.layer, options.head), chunk=documents.chunk,
        stride=documents.stride, seed=documents.seed or 0, strict=strict, force=force,
    )  # fmt: skip
    if not quiet:
        poison = f", {counted(done['poison'], 'record')} could not be scanned" if done["poison"] else ""
        print(f"{counted(done['documents'], 'document')}, {counted(done['tokens'], 'token')}{poison}: {output}")
    return ExitCode.DONE
