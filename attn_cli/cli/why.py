"""Explain why a query attends to a key: content, position, and the pairs of columns that count."""

from collections.abc import Sequence

from attn_cli.call import Call
from attn_cli.cli.kit.options import named as o
from attn_cli.cli.kit.options.command import TextCommandOptions
from attn_cli.cli.kit.run.text_run import CommandPlan, PickedRows, run
from attn_cli.cli.kit.shell.signature import option, takes_options
from attn_cli.errors import ExitCode, InputError
from attn_cli.model.source import Source
from attn_cli.summaries.calls.read_shares import Measure
from attn_cli.summaries.reduce import Reducer
from attn_cli.summaries.reducers.keys import MANY_ROWS
from attn_cli.summaries.reducers.why import ExplainedKeys
from attn_cli.views.view import View


@takes_options
def why(
    options: TextCommandOptions,
    *,
    k: int = option(5, "--top -k K", "Explain K keys per query.", min=1),
    token: str | None = o.TOKEN,
    key: str | None = option(None, "--key WORD|INDEX", "Explain this key, not the heaviest."),
) -> ExitCode:
    """Explain why a query attends to a key: content, position, and the pairs of columns that count.

    A score is explained against the mean score of all keys that the query sees.

    \b
    Examples:
      attn why "The capital of France is" -m gpt2 -H 9.8 -t -1
      attn why "he sat on the river bank" -m ./my-model -H 5.1 -t bank --key river
    """

    def plan(view: View, source: Source) -> CommandPlan:
        def explained(rows: PickedRows, call: Call, keys: PickedRows = None) -> Sequence[Reducer]:
            if view.largest is not None and rows is None and call.n > MANY_ROWS:
                raise InputError(
                    f"a screen has no room to explain {call.n:,} queries",
                    "pick some with --token, such as -t -1; -f csv explains all",
                )
            return [ExplainedKeys(k, rows=rows, keys=keys)]

        return CommandPlan(explained, token, measure=Measure(rotations=True), key=key)

    return run(options, "why", plan)
