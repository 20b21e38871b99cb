"""The keys that each query (or the asked one) attends to most."""

from collections.abc import Sequence
from typing import Annotated

import typer

from attn_cli.call import Call
from attn_cli.cli.kit import options as o
from attn_cli.cli.kit.dataclass_options import takes_options
from attn_cli.cli.kit.run import ReducersFor, Rows
from attn_cli.cli.kit.shared_options import TextCommandOptions
from attn_cli.errors import ExitCode
from attn_cli.sources import Source
from attn_cli.summaries.reduce import Reducer
from attn_cli.summaries.reducers.overall import OverallKeys
from attn_cli.summaries.reducers.top import TopKeys
from attn_cli.views.view import View

_MANY = 64  # with more queries than this and no --token, a screen shows their mean weights, as with --overall


@takes_options
def top(
    options: TextCommandOptions,
    k: Annotated[int, typer.Option("--top", "-k", help="How many keys per query.", min=1, metavar="K")] = 5,
    token: o.TokenPick = None,
    overall: Annotated[
        bool, typer.Option("--overall", help="The keys that all these queries attend to most, taken together.")
    ] = False,
    mean: o.Mean = False,
    words: o.Words = False,
    no_special: o.NoSpecial = False,
) -> ExitCode:
    """The keys that each query (or the asked one) attends to most.

    With --overall those that all of them together do, by their mean weights; so does a screen with a text of more than
    64 tokens, unless --token picks some.

    \b
    Examples:
      attn top "he sat on the river bank" --token bank
      attn top "river bank" -m ./my-model -l -1 --mean
      attn top "The capital of France is" -m gpt2 -l -1 --mean --generate 8
      echo "river bank" | attn top - --json | jq '.result.top[0]'
    """

    merges = options.merges(words)

    def reducers(view: View, source: Source) -> ReducersFor:
        def of_call(rows: Rows, call: Call) -> Sequence[Reducer]:
            if overall or (view.largest is not None and rows is None and call.n > _MANY):
                return [OverallKeys(k, rows=rows, mean_heads=mean, abridged=not overall)]
            return [TopKeys(k, rows=rows, mean_heads=mean, scores=not merges)]

        return of_call

    return options.run("overall" if overall else "top", reducers, token=token, hide_special=no_special, words=merges)
