"""The run of commands that show keys or heads by what they write to the logit of the answer."""

from collections.abc import Mapping

from attn_cli.cli.kit.options.command import TextCommandOptions, refuse_beside, refuse_without_model
from attn_cli.cli.kit.run.text_run import each_report
from attn_cli.errors import ExitCode
from attn_cli.model.source import Predicting, Source
from attn_cli.summaries.answers.logit_keys import logit_keys
from attn_cli.summaries.report import Report
from attn_cli.views.view import View


def run_by_logit(
    options: TextCommandOptions,
    command: str,
    count: int | None,
    others: Mapping[str, bool],
    *,
    by_head: bool = False,
    turned: bool = False,
) -> ExitCode:
    """Print what heads write to the logit of each text's answer: by key or by head."""
    refuse_beside(command, others, "it is of the rows that choose the answer")
    refuse_without_model(options.model, f"{command} needs logits")

    def report(source: Source, view: View, text: str, number: int | None) -> Report:
        assert isinstance(source, Predicting)
        prompt = source.read([text], options.pair)[0]
        answer = logit_keys(source, prompt, options.selection, by_head=by_head, turned=turned, shown=count)
        return Report("logit_keys", source.about, (prompt,), warnings=prompt.warnings, answer=answer, index=number)

    return each_report(options, report)
