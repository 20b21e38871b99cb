"""Price a smaller KV cache: windows and rounding, run and not estimated."""

from typing import Annotated

import typer

from attn_cli.cli.kit.options.refusals import refuse_without_model
from attn_cli.cli.kit.options.text_command import TextCommandOptions
from attn_cli.cli.kit.run.text_run import each_report
from attn_cli.cli.kit.run.texts import Texts
from attn_cli.cli.kit.shell.signature import takes_options
from attn_cli.cli.kit.stderr.lines import print_notes
from attn_cli.cli.kit.stderr.progress import Progress
from attn_cli.cli.kit.stderr.status_line import StatusLine
from attn_cli.errors import ExitCode, InputError
from attn_cli.model.source import Predicting, Source
from attn_cli.summaries.budget.asked import DEFAULT_BITS, Asked, target_of
from attn_cli.summaries.budget.engines import engine_files
from attn_cli.summaries.budget.pricing import begin_pricing
from attn_cli.summaries.report import Report
from attn_cli.views.engine_folder import check_folder, write_folder
from attn_cli.views.view import View

_PERCENT = 100


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
    top_keys: Annotated[
        int | None,
        typer.Option("--top-keys", metavar="K", min=1, help="Leave each query head the K keys of its highest scores."),
    ] = None,
    kv: Annotated[
        str | None,
        typer.Option("--kv", metavar="FORMAT[/FORMAT]",
                     help="Round keys and values of each layer: q8_0, q4_0, fp8_e4m3, kivi2 ..., or f16 for none."),
    ] = None,
    scored: Annotated[
        int | None,
        typer.Option("--scored", metavar="N", min=1,
                     help="Score N tokens, and hold N more back to run the plan on (default: an eighth, at most 512)."),
    ] = None,
    target: Annotated[
        float | None,
        typer.Option("--target", metavar="BITS", min=0.0,
                     help=f"Plan for so many bits a token lost (default: {DEFAULT_BITS})."),
    ] = None,
    memory: Annotated[
        float | None,
        typer.Option("--memory", metavar="PERCENT", min=0.0, max=float(_PERCENT),
                     help="Plan for a cache of so many percent instead."),
    ] = None,
    heads: Annotated[
        str | None,
        typer.Option("--heads", metavar="SHARE", help="Plan a window for this share of the key heads: 1/3 or 33%."),
    ] = None,
    no_plan: Annotated[bool, typer.Option("--no-plan", help="Price alone, and make no plan.")] = False,
    also: Annotated[
        list[str] | None,
        typer.Option("--also", metavar="FILE", help="Price on this text, too; repeatable: three show the spread."),
    ] = None,
    check: Annotated[
        list[str] | None,
        typer.Option("--check", metavar="FILE", help="Run the plan on this text of another kind; repeatable."),
    ] = None,
    engines: Annotated[
        str | None,
        typer.Option("--engines", metavar="FOLDER",
                     help="Write the plan as engines read it: DuoAttention, kvpress, llama.cpp, vLLM."),
    ] = None,
) -> ExitCode:  # fmt: skip
    """Price a smaller KV cache: windows and rounding, run and not estimated.

    The last tokens of the text are scored again and again, each time with something taken from the cache that they
    read: the keys behind a window for one key head after the other, or digits of a layer's keys or values. The price is
    in bits a token. A plan takes many away at once; it is run whole, also on the end of the text, which is held back
    from prices and plan.

    \b
    Examples:
      attn budget --file sample.txt -m gpt2
      attn budget --file sample.txt -m gpt2 --heads 1/3   a window for a third
      attn budget --file a.txt -m gpt2 --target 0.02 --check b.txt --engines plan/
      attn budget --file sample.txt -m ./my-model --kv q8_0/q4_0 --json
    """
    _check(options)
    if no_plan and any(each is not None for each in (target, memory, heads, check, engines)):
        raise InputError("--no-plan and an option of plans at once", "leave out --no-plan")
    asked = Asked.of(
        window=window, first=first, scored=scored, top_keys=top_keys, kv=kv,
        target=None if no_plan else target_of(target, memory, heads),
    )  # fmt: skip
    if engines is not None:
        check_folder(engines, force=options.force)
    others, checks = _read(also), _read(check)

    def report(source: Source, view: View, text: str, number: int | None) -> Report:
        assert isinstance(source, Predicting)
        prompt, *rest = (source.read([each], options.pair)[0] for each in (text, *others.values()))
        checked = [(name, source.read([each])[0]) for name, each in checks.items()]
        with StatusLine(quiet=options.quiet) as line:
            line.tick(f"reading {len(prompt.tokens):,} tokens, baseline run")
            named = [(options.file or "", prompt), *zip(others, rest, strict=True)]
            pricing = begin_pricing(source, named, asked, options.selection)
        with Progress(
            pricing.runs, 1, number or 0, quiet=options.quiet, verbose=options.verbose, noun="run"
        ) as progress:
            answer = pricing.answer(checked, progress.step)
        if engines is not None:
            print_notes([write_folder(engines, engine_files(answer), force=options.force)], quiet=options.quiet)
        warnings = tuple(note for each in (prompt, *rest) for note in each.warnings)
        return Report("budget", source.about, (prompt,), warnings=warnings, answer=answer, index=number)

    return each_report(options, report)


def _check(options: TextCommandOptions) -> None:
    """InputError for a source without a cache, and for input that isn't one text."""
    refuse_without_model(options.model, "attn budget runs a model")
    if options.head is not None:
        raise InputError("--head chooses query heads, and a cache is of key heads", "choose layers with --layer")
    if (options.inputs, options.image or None, options.audio or None) != (None, None, None):
        raise InputError("a cache is priced on a text", "leave out --inputs, --image and --audio")
    if options.lines:
        raise InputError("--lines: a line is too short to price a cache on", "give files: --file A --also B --also C")


def _read(files: list[str] | None) -> dict[str, str]:
    """The texts of files, by their names."""
    return {file: str(next(Texts(None, file, lines=False))) for file in files or ()}
