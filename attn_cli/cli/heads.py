"""One line per head: how spread, how far, and at what."""

from typing import Annotated

import typer

from attn_cli.cli.kit import options as o
from attn_cli.cli.kit.dataclass_options import takes_options
from attn_cli.cli.kit.ranking_options import ranking_of
from attn_cli.cli.kit.run import ReducersFor
from attn_cli.cli.kit.shared_options import TextCommandOptions
from attn_cli.errors import ExitCode
from attn_cli.sources import Source
from attn_cli.summaries.reducers.heads.head_statistics import HeadStatistics
from attn_cli.views.view import View


@takes_options
def heads(
    options: TextCommandOptions,
    sort: Annotated[
        str | None,
        typer.Option("--sort", metavar="COLUMN",
                     help="By a column, largest first (entropy smallest): its heading or name; - turns it round."),
    ] = None,
    top: Annotated[int | None, typer.Option("--top", "-k", help="The first N as sorted.", min=1, metavar="N")] = None,
    words: o.Words = False,
) -> ExitCode:  # fmt: skip
    """One line per head: how spread, how far, and at what.

    --sort puts the heads of all layers in one order: by entropy the sharpest first, by any other column the largest.

    \b
    Examples:
      attn heads "river bank" -m ./my-model
      attn heads --file prompt.txt -m gpt2 --sort induction --top 8
      attn heads "river bank" -m ./my-model --sort -entropy -f csv
    """
    ranking = ranking_of(sort, top)

    def reducers(view: View, source: Source) -> ReducersFor:
        return lambda rows, call: [HeadStatistics()]

    return options.run("heads", reducers, words=options.merges(words), ranking=ranking)
