"""Price a smaller KV cache: windows and rounding, run and not estimated."""

from typing import Annotated

import typer

from attn_cli.cli.kit.options.text_command import TextCommandOptions
from attn_cli.cli.kit.run.text_run import each_report
from attn_cli.cli.kit.shell.signature import takes_options
from attn_cli.cli.kit.stderr.progress import Progress
from attn_cli.cli.kit.stderr.status_line import StatusLine
from attn_cli.errors import ExitCode, InputError
from attn_cli.source import Predicting, Source
from attn_cli.sources import is_recording, is_table
from attn_cli.summaries.budget.answer import begin_pricing
from attn_cli.summaries.report import Report
from attn_cli.views.view import View


@takes_options
def budget(
    options: TextCommandOptions,
    window: Annotated[
        int | None,
        typer.Option("--window", metavar="W", min=1,
                     help="Leave a key head its last W keys (default: an eighth of the text, at most 256)."),
    ] = None,
    first: Annotated[
        int, typer.Option("--first", metavar="F", min=0, help="Leave it the first F keys besides.")
    ] = 4,
    scored: Annotated[
        int | None,
        typer.Option("--scored", metavar="N", min=1,
                     help="Score the last N tokens (default: an eighth of the text, at most 512)."),
    ] = None,
) -> ExitCode:  # fmt: skip
    """Price a smaller KV cache: windows and rounding, run and not estimated.

    The last tokens of the text are scored again and again, each time with something taken from the cache that they
    read: the keys behind a window, for one key head after the other. The price is in bits a token.

    \b
    Examples:
      attn budget --file sample.txt -m gpt2
      attn budget --file sample.txt -m ./my-model --window 512 --first 16
    """
    if is_table(options.model):
        raise InputError(f"{options.model} is a table of word vectors, and caches nothing",
                         "choose a model with --model")  # fmt: skip
    if is_recording(options.model):
        raise InputError(f"{options.model} is a recording, and this runs a model again", "choose the model itself")
    if options.head != "all":
        raise InputError("--head chooses query heads, and a cache is of key heads", "choose layers with --layer")
    if (options.inputs, options.image or None, options.audio or None) != (None, None, None):
        raise InputError("a cache is priced on a text", "leave out --inputs, --image and --audio")

    def report(source: Source, view: View, text: str, number: int | None) -> Report:
        assert isinstance(source, Predicting)
        prompt = source.read([text], options.pair)[0]
        with StatusLine(quiet=options.quiet) as line:
            line.tick(f"reading {len(prompt.tokens):,} tokens, baseline run")
            pricing = begin_pricing(
                source, prompt, window=window, first=first, scored=scored, selection=options.selection
            )  # fmt: skip
        with Progress(
            pricing.runs, 1, number or 0, quiet=options.quiet, verbose=options.verbose, noun="run"
        ) as progress:
            answer = pricing.answer(progress.step)
        return Report("budget", source.about, (prompt,), warnings=prompt.warnings, answer=answer, index=number)

    return each_report(options, report)
