"""Print one line per head: entropy, distance, sinks, induction."""

from dataclasses import replace
from functools import partial

from attn_cli.cli.kit.options import named as o
from attn_cli.cli.kit.options.command import TextCommandOptions, ranking_of, refuse_beside, shows_report
from attn_cli.cli.kit.options.hiding import HidingOptions
from attn_cli.cli.kit.run.text_run import CommandPlan, run
from attn_cli.cli.kit.shell.signature import option, takes_options
from attn_cli.cli.kit.stderr import Progress
from attn_cli.errors import ExitCode, InputError
from attn_cli.model.source import Source
from attn_cli.sources import is_recording
from attn_cli.summaries.answers.attending import with_attending
from attn_cli.summaries.answers.kinds import judge_heads, kinds_of
from attn_cli.summaries.reducers.heads import HeadStatistics
from attn_cli.summaries.reducers.kinds.reducer import HeadKindsReducer
from attn_cli.summaries.reducers.matrix import MatrixOf
from attn_cli.summaries.report import Report
from attn_cli.views.answers.heads import with_resting_told
from attn_cli.views.view import View

_MANY = 15  # heads by key that a screen lists where no number was asked for


@takes_options
def heads(
    options: TextCommandOptions,
    sort: str | None = o.SORT,
    top: int | None = option("--top -k N", "Show the first N.", min=1),
    token: str | None = o.TOKEN,
    key: str | None = option("--key WORD|INDEX", "List heads by their weight on this key, from --token or all."),
    words: bool = o.WORDS,
    kinds: bool = option("--kinds", "Name what each head does, on TEXT or on repeated random tokens."),
    width: str | None = o.WIDTH,
    *,
    hiding: HidingOptions,
) -> ExitCode:
    """Print one line per head: entropy, distance, sinks, induction.

    A terminal shows how many heads of a model are of each kind, and those that stand out. -v, --sort, --layer and
    --head list every one, as pipes and files do.
    --kinds names induction heads, previous token heads, sinks and others (attn guide kinds), against uniform attention.
    Without a TEXT the model reads repeated random tokens, on which induction heads show.
    --sort orders the heads of all layers: by entropy the lowest first, by any other column the largest.

    \b
    Examples:
      attn heads "river bank" -m ./my-model
      attn heads --file prompt.txt -m gpt2 --sort induction --top 8
      attn heads --kinds -m ./my-model
      attn heads "river bank" -m ./my-model --sort -entropy -f csv
      attn heads "river bank" -m ./my-model -t bank --key river
    """
    if key is not None:
        refuse_beside("--key", {"--sort": sort is not None, "--kinds": kinds}, "it sorts heads by their weight on it")
        return _by_key(options, token, key, top, hiding, words=options.merges(words))
    if token is not None:
        raise InputError("--token needs --key", "add --key WORD, or see attn top")
    ranking = ranking_of(sort, top)
    if ranking is not None and options.written_format.name == "npz":
        raise InputError("--sort is for tables: npz holds each head in its place", "leave out --sort, or use csv")
    if kinds:
        if ranking is not None:
            raise InputError("--sort and --kinds at once", "leave out --kinds, or sort its --format csv")
        hiding.refuse("--kinds compares heads with uniform attention over all keys")
        return _kinds(options, words=words)
    merges = options.merges(words)

    def plan(view: View, source: Source) -> CommandPlan:
        chooses = ranking is not None or (options.chooses_no_head and not options.verbose)
        judges = view.chooses and chooses and source.about["type"] != "table"
        judges = judges and not (merges or options.lines or hiding.hide)
        judged = [HeadKindsReducer()] if judges else []
        finish = None if ranking is None or hiding.hide else with_resting_told
        statistics = CommandPlan(lambda rows, _: [HeadStatistics(rows), *judged], None, hiding, merges)
        return replace(statistics, ranking=ranking, finish=finish)

    return run(options, "heads", plan)


def _by_key(
    options: TextCommandOptions, token: str | None, key: str, count: int | None, hiding: HidingOptions, *, words: bool
) -> ExitCode:
    """List the heads by their weight on the tokens `key`, from `token` or from all queries."""

    def plan(view: View, source: Source) -> CommandPlan:
        shown = None if count or options.verbose or not view.chooses else _MANY
        finish = partial(with_attending, count=count, shown=shown)
        return CommandPlan(
            lambda rows, _, keys: [MatrixOf(rows=rows, keys=keys)], token, hiding, words, key=key, finish=finish
        )

    return run(options, "attending", plan)


def _kinds(options: TextCommandOptions, *, words: bool) -> ExitCode:
    listed = options.verbose and options.written_format.is_screen
    without_text = (options.text, options.file, options.lines) == (None, None, False)
    if not without_text or options.without_text or is_recording(options.model):
        judged = HeadKindsReducer()

        def finish(report: Report) -> Report:
            return replace(report, answer=kinds_of(report.summaries, report.prompts, listed=listed))

        plan = CommandPlan(lambda rows, call: [judged], words=options.merges(words), finish=finish)
        return run(options, "kinds", lambda view, source: plan)
    given = {"--pair": options.pair is not None, "--generate": options.generate is not None, "--chat": options.chat}
    refuse_beside("no text", given, "{other} goes with a text: without one the model reads random tokens")
    return _on_random_tokens(options=options, listed=listed)


@shows_report
def _on_random_tokens(options: TextCommandOptions, *, listed: bool) -> Report:
    source = options.source()
    prompts, layers = source.repeated(0), len(source.planned_layers(options.selection))
    with Progress(layers, len(prompts), 0, quiet=options.quiet, verbose=options.verbose) as progress:
        report = judge_heads(source, prompts, 0, options.selection, progress.step)
    return replace(report, answer=kinds_of(report.summaries, prompts, 0, listed=listed))
