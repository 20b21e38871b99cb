"""List the keys that each query attends to most."""

from attn_cli.cli.kit.options import named as o
from attn_cli.cli.kit.options.command import TextCommandOptions
from attn_cli.cli.kit.options.hiding import HidingOptions
from attn_cli.cli.kit.run.text_run import CommandPlan, run
from attn_cli.cli.kit.shell.signature import option, takes_options
from attn_cli.errors import ExitCode
from attn_cli.model.source import Source
from attn_cli.summaries.calls.read_shares import By
from attn_cli.summaries.reducers.keys import RowKeys
from attn_cli.views.answers.deciding_rows import with_reading
from attn_cli.views.view import View


@takes_options
def top(
    options: TextCommandOptions,
    *,
    k: int = option("--top -k K", "Show K keys per query.", 5, min=1),
    token: str | None = o.TOKEN,
    overall: bool = option("--overall", "Rank the keys that all these queries together attend to most."),
    by: By = o.BY,
    mean: bool = o.MEAN,
    words: bool = o.WORDS,
    width: str | None = o.WIDTH,
    hiding: HidingOptions,
) -> ExitCode:
    """List the keys that each query attends to most.

    A terminal shows a model's heads together, in the row that decides what comes next or those of --token.
    --head shows heads one by one. Pipes and files get every row of every head.
    --overall ranks keys by their mean weight over all queries. So does a screen of more than 64 tokens, unless
    --token picks queries.
    --by value and --by output rank keys by their share of what a head reads or outputs. A small value has a small
    share. --by rollout ranks tokens by what reaches the query from them through all layers.

    \b
    Examples:
      attn top "he sat on the river bank" --token bank
      attn top "river bank" -m ./my-model -l -1 --mean
      attn top "The capital of France is" -m gpt2 -l -1 --mean --generate 8
      attn top "The capital of France is" -m gpt2 -l 9 -t -1 --by output
      echo "river bank" | attn top - --json | jq '.tables.top[0]'
    """
    merges, mean = options.merges(words, by=by), options.averages(mean, by)
    unchosen = options.chooses_no_head and by == "weight" and not any((mean, overall, merges, hiding.hide))

    def plan(view: View, source: Source) -> CommandPlan:
        short, of_table = view.chooses and unchosen, source.about["type"] == "table"
        keys = RowKeys(k, mean or short, by, not merges, overall, view.largest is not None)
        every = RowKeys(k, all_heads=True)
        if unchosen and not of_table and not view.chooses and view.format in ("json", "terminal"):
            finish = with_reading if view.format == "json" else None  # a pipe's text begins with the finding itself
            return CommandPlan(lambda *of: [*keys(*of), *every(*of)], token, hiding, finish=finish)
        return CommandPlan(keys if of_table or not short else every, token, hiding, merges, by)

    return run(options, "overall" if overall else "top", plan)
