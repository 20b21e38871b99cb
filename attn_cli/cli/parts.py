"""Trace an answer to the parts of the text that it came from."""

from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
import typer

from attn_cli.call import Call
from attn_cli.cli.kit.options import named as o
from attn_cli.cli.kit.options.hiding import HiddenNotes, HidingOptions
from attn_cli.cli.kit.options.text_command import TextCommandOptions
from attn_cli.cli.kit.run.asked_answer import AskedAnswer
from attn_cli.cli.kit.run.text_cut import text_cut
from attn_cli.cli.kit.run.text_run import each_report
from attn_cli.cli.kit.shell.signature import takes_options
from attn_cli.cli.kit.stderr.lines import print_notes
from attn_cli.cli.kit.stderr.progress import MANY_PASSES, Progress
from attn_cli.errors import ExitCode, InputError
from attn_cli.model.source import Predicting, Source
from attn_cli.prompt import Prompt
from attn_cli.selection import Selection
from attn_cli.summaries.answers.logit_keys import logit_keys
from attn_cli.summaries.calls.hidden_keys import HiddenWeight
from attn_cli.summaries.parts.answer import read_parts
from attn_cli.summaries.parts.hidden import runs_to_hide
from attn_cli.summaries.parts.text_parts import (
    rows_of_last,
)
from attn_cli.summaries.report import Report
from attn_cli.token_syntax import picked_tokens
from attn_cli.views.view import View


@takes_options
def parts(
    options: TextCommandOptions,
    cut: Annotated[
        str | None,
        typer.Option("--cut", metavar="HOW|FILE",
                     help="Split into lines, paragraphs, sentences, words, roles of a chat, or by a file."),
    ] = None,
    token: o.TokenPick = None,
    answer: Annotated[
        str | None,
        typer.Option("--answer", metavar="TEXT", help="Trace TEXT in place of what the model writes."),
    ] = None,
    cite: Annotated[
        bool,
        typer.Option("--cite", help="Mark every sentence of the answer with the parts it needed."),
    ] = False,
    everywhere: Annotated[
        bool,
        typer.Option("--everywhere", help="Mask the part for all later tokens, not only for the question."),
    ] = False,
    by: Annotated[
        Literal["logit"] | None,
        typer.Option("--by", metavar="MEASURE",
                     help="Add what heads write from each part to the answer's logit: logit."),
    ] = None,
    *,
    hiding: HidingOptions,
) -> ExitCode:  # fmt: skip
    """Trace an answer to the parts of the text that it came from.

    The answer is what the model writes after the text, to the end of its first sentence or line. For every part: its
    share of attention from the rows that chose the answer, and the change of the answer's log2 p with the part masked,
    which tells whether it was used.

    \b
    Examples:
      attn parts --file prompt.txt -m ./my-model
      attn parts --file prompt.txt -m ./my-model --cut paragraphs --cite
      attn parts --file prompt.txt -m ./my-model --hide sink
      attn parts --messages chat.json -m ./my-model --json
    """
    divided, asked = text_cut(cut), AskedAnswer(answer, cite=cite)
    asked.check(options, picks_rows=token is not None)

    def report(source: Source, view: View, text: str, number: int | None) -> Report:
        messages = options.messages_with(text)
        prompt = source.read([text], options.pair)[0]
        notes: tuple[str, ...] = ()
        if token is None and options.generate is None:
            prompt, notes = asked.continued(source, prompt, messages, quiet=options.quiet)
            messages = messages if prompt.generated is None else asked.before(messages)
        how, text_parts = divided.parts(prompt, messages)
        rows: list[int] | None = None
        if token is not None:
            rows, notes = picked_tokens(token, prompt.others.get("decoder", prompt.tokens), prompt.text)
        hiding.check(prompt, rows)
        reads_all = isinstance(source, Predicting) and not source.has_lm_head  # an encoder's special tokens read, too
        if rows is not None or (reads_all and hiding.no_special):
            rows = list(hiding.rows(rows, prompt.others.get("decoder", prompt.tokens)) or rows or ()) or None
        hidden = HiddenNotes()

        def hides(call: Call) -> list[int]:
            keys = hiding.keys(call, prompt.text)
            hidden.add(call, keys)
            return keys

        passes = runs_to_hide(prompt, text_parts, everywhere=everywhere, whole=reads_all)
        if passes > MANY_PASSES and isinstance(source, Predicting):
            print_notes(
                [f"about as much work as {passes:,.0f} baseline runs; larger parts take fewer (--cut paragraphs)"],
                quiet=options.quiet,
            )
        layers = len(source.planned_layers(options.selection))
        hiding_runs = sum(part.kind != "generated" for part in text_parts) if isinstance(source, Predicting) else 0
        if passes == 1.0:  # the reading rows alone
            first = min(rows or rows_of_last(prompt, text_parts) or (0,))
            passes += hiding_runs * max(1 - first / max(len(prompt.tokens), 1), 0.0)
        last = (hiding_runs, layers * passes / max(hiding_runs, 1))
        with Progress(
            layers + hiding_runs, 1, number or 0, quiet=options.quiet, verbose=options.verbose, noun="step", last=last
        ) as progress:
            read = read_parts(
                source, prompt, text_parts, rows=rows, everywhere=everywhere, selection=options.selection,
                hides=hides, step=progress.step,
            )  # fmt: skip
        hidden.weight = HiddenWeight(1 - read.read.left - read.read.learned_share, 1)
        if by == "logit":
            read = replace(read, key_logits=_key_logits(source, prompt, options.selection))
        read = replace(read, cut=how, cites=cite)
        obstacle = (f"no part can be hidden: {read.obstacle}",) if read.obstacle else ()
        warnings = (*prompt.warnings, *notes, *hiding.notes(hidden), *obstacle)
        return Report("parts", source.about, (prompt,), read.summaries, warnings, read, number)

    return each_report(options, report)


def _key_logits(source: Source, prompt: Prompt, selection: Selection) -> np.ndarray:
    if not isinstance(source, Predicting):
        raise InputError("a table of word vectors has no logits", "choose a model with --model")
    total: np.ndarray = logit_keys(source, prompt, selection).values.sum(axis=0)
    return total
