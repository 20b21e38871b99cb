"""The run of commands that list heads by what they give from a query to a key."""

from attn_cli.cli.kit.options.hiding import HidingOptions
from attn_cli.cli.kit.options.text_command import TextCommandOptions
from attn_cli.cli.kit.run.plan import CommandPlan
from attn_cli.cli.kit.run.text_run import run
from attn_cli.errors import ExitCode
from attn_cli.model.source import Source
from attn_cli.summaries.answers.attending import with_attending
from attn_cli.summaries.reducers.matrix import MatrixOf
from attn_cli.views.view import View

_MANY = 15  # heads that a screen lists where no number was asked for


def run_by_key(
    options: TextCommandOptions,
    token: str | None,
    key: str,
    count: int | None,
    hiding: HidingOptions,
    *,
    words: bool,
) -> ExitCode:
    """Print the heads by their weight on the tokens `key`, from `token` or from all queries."""

    def plan(view: View, source: Source) -> CommandPlan:
        shown = None if count or options.verbose or not view.chooses else _MANY
        return CommandPlan(
            lambda rows, call, keys: [MatrixOf(rows=rows, keys=keys)],
            token, hiding, words, key=key, finish=lambda report: with_attending(report, count, shown),
        )  # fmt: skip

    return run(options, "attending", plan)
