"""Print one line per head: entropy, distance, sinks, induction."""

from typing import Annotated

import typer

from attn_cli.cli.kit.options import named as o
from attn_cli.cli.kit.options.hiding import HidingOptions
from attn_cli.cli.kit.options.ranking import change_ranking, ranking_of
from attn_cli.cli.kit.options.text_command import TextCommandOptions
from attn_cli.cli.kit.run.against import AgainstCommand, AgainstOptions
from attn_cli.cli.kit.run.kinds import kinds_of_heads
from attn_cli.cli.kit.run.plan import Plan
from attn_cli.cli.kit.run.text_run import run
from attn_cli.cli.kit.shell.signature import takes_options
from attn_cli.errors import ExitCode, InputError
from attn_cli.source import Source
from attn_cli.summaries.against.head_changes import head_changes
from attn_cli.summaries.reducers.heads.head_statistics import HeadStatistics
from attn_cli.views.view import View


@takes_options
def heads(
    options: TextCommandOptions,
    sort: Annotated[
        str | None,
        typer.Option("--sort", metavar="COLUMN",
                     help="Sort by a column, largest first (entropy lowest); - reverses."),
    ] = None,
    top: Annotated[int | None, typer.Option("--top", "-k", help="Show the first N.", min=1, metavar="N")] = None,
    words: o.Words = False,
    kinds: Annotated[
        bool,
        typer.Option("--kinds", help="Name what each head does, on TEXT or on repeated random tokens."),
    ] = False,
    seed: o.Seed = None,
    *,
    hiding: HidingOptions,
    against: AgainstOptions,
) -> ExitCode:  # fmt: skip
    """Print one line per head: entropy, distance, sinks, induction.

    --kinds names induction heads, previous token heads, sinks and others, compared with uniform attention; without a
    TEXT the model reads repeated random tokens, on which induction heads show.
    --sort orders the heads of all layers: by entropy the lowest first, by any other column the largest.
    --against and --against-model show how much of each head's weight moves, most first: --sort change or last.

    \b
    Examples:
      attn heads "river bank" -m ./my-model
      attn heads --file prompt.txt -m gpt2 --sort induction --top 8
      attn heads --kinds -m ./my-model
      attn heads "river bank" -m ./my-model --sort -entropy -f csv
      attn heads "Paris is in" --against "Rome is in" -m gpt2 --sort last
    """
    if against.requested({"--kinds": kinds} | hiding.given):
        comparison = AgainstCommand(
            "head_changes",
            lambda view, pair, rows: head_changes(pair),
            words=options.merges(words),
            ranking=change_ranking(sort, top),
        )
        return against.run(options, comparison)
    ranking = ranking_of(sort, top)
    if kinds:
        if ranking is not None:
            raise InputError("--sort and --kinds at once", "leave out --kinds; its --format csv can be sorted")
        hiding.refuse("--kinds holds heads against chance over all keys")
        return kinds_of_heads(options, words=words, seed=seed)
    if seed is not None:
        raise InputError("--seed needs --kinds", "add --kinds")

    merges = options.merges(words)

    def plan(view: View, source: Source) -> Plan:
        return Plan(lambda rows, call: [HeadStatistics(rows, rescale=hiding.rescale)], hiding=hiding, words=merges,
                    ranking=ranking)  # fmt: skip

    return run(options, "heads", plan)
