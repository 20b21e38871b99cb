"""Trace an answer to the parts of the text that it came from."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from attn_cli.call import Call
from attn_cli.cli.kit.options import named as o
from attn_cli.cli.kit.options.hiding import HiddenNotes, HidingOptions
from attn_cli.cli.kit.options.text_command import TextCommandOptions
from attn_cli.cli.kit.run.text_run import each_report
from attn_cli.cli.kit.shell.signature import takes_options
from attn_cli.cli.kit.stderr.lines import print_notes
from attn_cli.cli.kit.stderr.progress import Progress
from attn_cli.cli.kit.stderr.status_line import StatusLine
from attn_cli.errors import ExitCode, InputError, LoadError, reason
from attn_cli.prompt import Prompt
from attn_cli.source import Predicting, Source
from attn_cli.sources import Generating, is_recording, is_table
from attn_cli.summaries.calls.hidden_keys import HiddenWeight
from attn_cli.summaries.parts.answer import read_parts
from attn_cli.summaries.parts.hidden import runs_to_hide
from attn_cli.summaries.parts.text_parts import (
    CUTS,
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

_EXAMPLE = "a line of it: 0,31,introduction"
_ANSWER_TOKENS = 32  # that a model writes to the end of a sentence or line
_CITED_TOKENS = 128  # and in sentences that are traced one by one
_MANY_PASSES = 15  # baseline runs; more are announced


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
      attn parts --file prompt.txt -m ./my-model --answer "in May"
      attn parts --file prompt.txt -m ./my-model --hide sink --rescale
      attn parts --messages chat.json -m ./my-model --json
    """
    divided, asked = _text_cut(cut), AskedAnswer(answer, cite=cite)
    asked.check(options, picks_rows=token is not None)

    def report(source: Source, view: View, text: str, number: int | None) -> Report:
        messages = _messages(options, text)
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
        hiding_runs = len(text_parts) if isinstance(source, Predicting) else 0
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
        read = replace(read, cut=how, rescaled=hiding.rescale, cites=cite)
        obstacle = (f"no part can be hidden: {read.obstacle}",) if read.obstacle else ()
        warnings = (*prompt.warnings, *notes, *hiding.notes(hidden), *obstacle)
        return Report("parts", source.about, (prompt,), read.summaries, warnings, read, number)

    return each_report(options, report)


def _messages(options: TextCommandOptions, text: str) -> list[tuple[str, str]] | None:
    """The messages of a chat with the text as the last one; None for a text that is none."""
    before = options.chat_before()
    if before is None:
        return None
    messages = [(message["role"], message["content"]) for message in before]
    return [*messages, ("user", text)] if text else messages


@dataclass(frozen=True)
class AskedAnswer:
    """The answer that is traced: a given one, else what the model writes after the text.

    given  the text of --answer; None without
    cite   whether each of several sentences is traced by itself
    """

    given: str | None
    cite: bool = False

    def check(self, options: TextCommandOptions, *, picks_rows: bool) -> None:
        """InputError for options that contradict each other, or that a table or recording can't answer."""
        asked = "--answer" if self.given is not None else "--cite" if self.cite else ""
        if asked and (is_table(options.model) or is_recording(options.model)):
            raise InputError(f"{asked} needs a model that writes text", "choose one with --model")
        if asked and picks_rows:
            raise InputError(f"{asked} and --token at once", "the rows of an answer are those that chose it")
        if self.given is not None and options.generate is not None:
            raise InputError("--answer and --generate at once", "an answer is given or generated")

    def before(self, messages: list[tuple[str, str]] | None) -> list[tuple[str, str]] | None:
        """The messages of a chat without a last one that is the answer."""
        return messages[:-1] if messages and messages[-1][0] == "assistant" else messages

    def continued(
        self, source: Source, prompt: Prompt, messages: list[tuple[str, str]] | None, *, quiet: bool
    ) -> tuple[Prompt, tuple[str, ...]]:
        """The prompt with its answer after it, and notes; the prompt as it is where the model writes nothing.

        InputError for a given answer where the model writes nothing.
        """
        if not isinstance(source, Predicting) or not source.has_lm_head:
            if self.given is None and not self.cite:
                return prompt, ()
            option = "--cite" if self.given is None else "--answer"
            raise InputError(f"{option} needs a model that writes text", "an encoder has no answer")
        if self.given is not None:
            end = len(prompt.text.rstrip())
            start = end - len(self.given.strip())
            if prompt.text[start:end] == self.given.strip() and start > 0:
                return prompt.ending_with_answer(start, end), ()
            return source.answered(prompt, self.given), ()
        if self.before(messages) != messages and messages:
            *_, (_, content) = messages
            start = prompt.text.rindex(content.strip())
            return prompt.ending_with_answer(start, start + len(content.strip())), ()
        most = _CITED_TOKENS if self.cite else _ANSWER_TOKENS
        with StatusLine(quiet=quiet) as line:
            if isinstance(source, Generating):
                source.on_token(lambda count: line.set(f"writing token {count} of up to {most}"))
            try:
                return source.written(prompt, most, one_sentence=not self.cite), ()
            except LoadError as error:
                return prompt, (f"the answer is the likeliest next token: {error.message}",)


@dataclass(frozen=True)
class TextCut:
    """How texts are divided.

    how    lines, paragraphs, sentences, words, roles or the name of a file; None to choose by the text
    spans  what the file holds
    """

    how: str | None
    spans: tuple[PartSpan, ...] = ()

    def parts(self, prompt: Prompt, messages: Sequence[tuple[str, str]] | None) -> tuple[str, tuple[TextPart, ...]]:
        """How the prompt was divided, and its parts.

        messages  the role and content of each message of a chat, None where the text is none

        Unless the user chose, a chat of several messages is cut by roles, other texts into lines, those of one line
        into sentences, those of one sentence into words.
        """
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


def _text_cut(value: str | None) -> TextCut:
    """The cut that a value of --cut means. InputError for a file that is not there, or holds no spans."""
    if value is None or value in (*CUTS, "roles"):
        return TextCut(value)
    path = Path(value).expanduser()
    if not path.exists():
        raise InputError(f"--cut {value!r} is not a known way to cut, nor a file",
                         f"{', '.join(CUTS)}, roles, or a file of start,end,name")  # fmt: skip
    return TextCut(value, tuple(_read(path, value)))


def _read(path: Path, file: str) -> list[PartSpan]:
    """The spans of a file: a line each, after a heading if there is one."""
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
