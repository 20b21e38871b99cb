"""Trace an answer to the parts of the text that it came from."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer

from attn_cli.call import Call
from attn_cli.cli.kit.options import named as o
from attn_cli.cli.kit.options.hiding import HiddenNotes, HidingOptions
from attn_cli.cli.kit.options.text_command import TextCommandOptions
from attn_cli.cli.kit.run.read_text import counted_tokens
from attn_cli.cli.kit.run.text_run import each_report
from attn_cli.cli.kit.shell.signature import takes_options
from attn_cli.cli.kit.stderr.lines import print_notes
from attn_cli.cli.kit.stderr.progress import Progress
from attn_cli.errors import ExitCode, InputError, LoadError, reason
from attn_cli.model.source import Predicting, Source
from attn_cli.prompt import Prompt
from attn_cli.selection import Selection
from attn_cli.sources import is_model
from attn_cli.summaries.answers.logit_keys import logit_keys
from attn_cli.summaries.calls.hidden_keys import HiddenWeight
from attn_cli.summaries.parts.answer import read_parts
from attn_cli.summaries.parts.hidden import runs_to_hide
from attn_cli.summaries.parts.text_parts import (
    CUTS,
    MessageText,
    PartSpan,
    TextPart,
    message_spans,
    named_parts,
    parts_of,
    rows_of_last,
)
from attn_cli.summaries.report import Report
from attn_cli.token_syntax import picked_tokens
from attn_cli.views.view import View

_MANY_PASSES = 15  # baseline runs; more are announced
_EXAMPLE = "a line of it: 0,31,introduction"


@dataclass(frozen=True)
class TextCut:
    """The division of texts into parts.

    how    lines, paragraphs, sentences, words, roles or the name of a file; None to choose by the text
    spans  the named ranges of characters that the file holds; none without a file
    """

    how: str | None
    spans: tuple[PartSpan, ...] = ()

    def parts(self, prompt: Prompt, messages: Sequence[MessageText] | None) -> tuple[str, tuple[TextPart, ...]]:
        """The name of the division, such as "lines", and the prompt's parts."""
        if self.spans:
            _check_ends(self.spans, prompt)
            return self.how or "", named_parts(prompt, self.spans, "rest")
        within = None if messages is None else message_spans(prompt.text, messages)
        if self.how == "roles" or (self.how is None and len(within or ()) > 1):
            if within is None:
                raise InputError(
                    "--cut roles needs a chat", "add --chat, or choose lines, paragraphs, sentences or words"
                )
            return "roles", named_parts(prompt, within, "template")
        for how in ("lines", "sentences", "words") if self.how is None else (self.how,):
            parts = parts_of(prompt, how, within)
            if sum(part.kind == "given" for part in parts) > 1:
                break
        return how, parts


def text_cut(value: str | None) -> TextCut:
    """How a value of --cut divides texts: into lines, sentences ..., or by a file of spans; None: as each text asks."""
    if value is None or value in (*CUTS, "roles"):
        return TextCut(value)
    path = Path(value).expanduser()
    if not path.exists():
        raise InputError(f"--cut {value!r} is not a known way to cut, nor a file",
                         f"{', '.join(CUTS)}, roles, or a file of start,end,name")  # fmt: skip
    return TextCut(value, tuple(_read(path, value)))


def _read(path: Path, file: str) -> list[PartSpan]:
    try:
        rows = list(csv.reader(path.read_text("utf-8-sig").splitlines()))
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"can't read {file}: {reason(error)}", _EXAMPLE) from None
    lines = [(number, row) for number, row in enumerate(rows, 1) if any(cell.strip() for cell in row)]
    if lines and not lines[0][1][0].strip().lstrip("-").isdigit():
        del lines[0]
    if not lines:
        raise InputError(f"{file} holds no parts", _EXAMPLE)
    return [_span(row, f"{file}: line {number}", number) for number, row in lines]


def _span(row: list[str], where: str, number: int) -> PartSpan:
    try:
        start, end = int(row[0]), int(row[1])
    except (ValueError, IndexError):
        raise InputError(f"{where} is not start,end,name", _EXAMPLE) from None
    if not 0 <= start <= end:
        raise InputError(f"{where} goes from character {start} to {end}", "start is 0 or more, end one past the last")
    return PartSpan(start, end, ",".join(row[2:]).strip() or f"part {number}")


def _check_ends(spans: Sequence[PartSpan], prompt: Prompt) -> None:
    """InputError for a span beyond the end of what the model was given."""
    generated = prompt.generated
    length = len(prompt.text) if generated is None or generated.start is None else generated.start
    for span in spans:
        if span.end > length:
            raise InputError(f"the part {span.name!r} ends at character {span.end:,}, the text at {length:,}",
                             "characters are counted from 0, over the whole text")  # fmt: skip


_ANSWER_TOKENS = 32  # that a model writes to the end of a sentence or line


@dataclass(frozen=True)
class AskedAnswer:
    """The answer whose needed parts of the text are sought: with one masked, it loses log2 p.

    given  the text of --answer; None for what the model writes after the text
    """

    given: str | None

    def check(self, options: TextCommandOptions, *, picks_rows: bool) -> None:
        """InputError for options that contradict each other, or that a table or recording can't answer."""
        if self.given is None:
            return
        if not is_model(options.model):
            raise InputError("--answer needs a model that writes text", "choose one with --model")
        if picks_rows:
            raise InputError("--answer and --token at once", "the rows of an answer are those that chose it")
        if options.generate is not None:
            raise InputError("--answer and --generate at once", "an answer is given or generated")

    def before(self, messages: list[MessageText] | None) -> list[MessageText] | None:
        """A chat's messages without the last one if that is an assistant's, which is then the answer."""
        return messages[:-1] if messages and messages[-1].role == "assistant" else messages

    def continued(
        self, source: Source, prompt: Prompt, messages: list[MessageText] | None, *, quiet: bool
    ) -> tuple[Prompt, tuple[str, ...]]:
        """The prompt with its answer after it, and notes to print; an encoder's prompt as it is."""
        if not isinstance(source, Predicting) or not source.has_lm_head:
            if self.given is None:
                return prompt, ()
            raise InputError("--answer needs a model that writes text", "an encoder has no answer")
        if self.given is not None:
            end = len(prompt.text.rstrip())
            start = end - len(self.given.strip())
            if prompt.text[start:end] == self.given.strip() and start > 0:
                return prompt.ending_with_answer(start, end), ()
            return source.answered(prompt, self.given), ()
        answers = messages[-1:] if messages and self.before(messages) != messages else []
        if says := [piece.strip() for each in answers for piece in (*each.content, *each.calls) if piece.strip()]:
            last = prompt.text.rfind(says[-1])
            if last < 0 or says[0] not in prompt.text:
                raise InputError("the last message is not in the chat's text as it was given", "give it as --answer")
            end = last + len(says[-1])
            return prompt.ending_with_answer(prompt.text.rindex(says[0], 0, end), end), ()
        with counted_tokens(source, _ANSWER_TOKENS, quiet=quiet):
            try:
                return source.written(prompt, _ANSWER_TOKENS), ()
            except LoadError as error:
                return prompt, (f"the answer is the likeliest next token: {error.message}",)


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
      attn parts --file prompt.txt -m ./my-model --cut paragraphs
      attn parts --file prompt.txt -m ./my-model --hide sink
      attn parts --chat chat.json -m ./my-model --json
    """
    divided, asked = text_cut(cut), AskedAnswer(answer)
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
        if passes > _MANY_PASSES and isinstance(source, Predicting):
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
        read = replace(read, cut=how)
        obstacle = (f"no part can be hidden: {read.obstacle}",) if read.obstacle else ()
        warnings = (*prompt.warnings, *notes, *hiding.notes(hidden), *obstacle)
        return Report("parts", source.about, (prompt,), read.summaries, warnings, read, number)

    return each_report(options, report)


def _key_logits(source: Source, prompt: Prompt, selection: Selection) -> np.ndarray:
    if not isinstance(source, Predicting):
        raise InputError("a table of word vectors has no logits", "choose a model with --model")
    total: np.ndarray = logit_keys(source, prompt, selection).matrices["direct_logit"].sum(axis=0)
    return total
