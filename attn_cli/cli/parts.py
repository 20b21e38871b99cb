"""Trace an answer to the parts of the text that it came from."""

from collections.abc import Sequence
from typing import Literal

from attn_cli.call import Place
from attn_cli.cli.kit.options import named as o
from attn_cli.cli.kit.options.command import TextCommandOptions, refuse_beside
from attn_cli.cli.kit.run.text_run import counted_tokens, each_report
from attn_cli.cli.kit.shell.signature import option, takes_options
from attn_cli.cli.kit.stderr import Progress
from attn_cli.errors import ExitCode, InputError, LoadError
from attn_cli.model.source import Predicting, Source
from attn_cli.prompt import Prompt
from attn_cli.sources import is_model
from attn_cli.summaries.parts.answer import read_parts
from attn_cli.summaries.parts.text_parts import MessageText, TextPart, message_spans, named_parts, parts_of
from attn_cli.summaries.report import Report
from attn_cli.token_syntax import picked_tokens
from attn_cli.views.view import View

_ANSWER_TOKENS = 32  # that a model writes to the end of a sentence or line


@takes_options
def parts(
    options: TextCommandOptions,
    cut: Literal["lines", "paragraphs", "sentences", "words", "roles"] | None = option(
        "--cut HOW", "Split into lines, paragraphs, sentences, words or roles of a chat."
    ),
    token: str | None = o.TOKEN,
    answer: str | None = option("--answer TEXT", "Trace TEXT in place of what the model writes."),
    everywhere: bool = option("--everywhere", "Hide the part from all later tokens, not only from the answer."),
) -> ExitCode:
    """Trace an answer to the parts of the text that it came from.

    The answer is what the model writes after the text, to the end of its first sentence or line. Shows of every
    part how the answer's log2 p changes with the part hidden: that tells whether it was used. Beside it stands the
    part's share of attention from the rows that chose the answer.

    \b
    Examples:
      attn parts --file prompt.txt -m ./my-model
      attn parts --file prompt.txt -m ./my-model --cut paragraphs
      attn parts --chat chat.json -m ./my-model --json
    """
    if answer is not None:
        if not is_model(options.model):
            raise InputError("--answer needs a model that writes text", "choose one with --model")
        others = {"--token": token is not None, "--generate": options.generate is not None}
        refuse_beside("--answer", others, "leave out {other}: the rows of an answer are those that chose it")

    def report(source: Source, view: View, text: str, number: int) -> Report:
        messages = options.messages_with(text)
        prompt = source.read([text], options.pair)[0]
        notes: list[str] = []
        rows: list[int] | None = None
        if token is not None:
            rows, picked = picked_tokens(token, prompt.others.get("decoder", prompt.tokens), prompt.text)
            notes += picked
        elif options.generate is None:
            prompt, its = _answered(source, prompt, answer, messages, quiet=options.quiet)
            notes += its
            if prompt.generated is not None and messages and messages[-1].role == "assistant":
                del messages[-1]
        how, cuts = _cut(prompt, cut, messages)
        hidden = sum(part.kind != "generated" for part in cuts) if isinstance(source, Predicting) else 0
        count, quiet, chosen = len(source.planned_layers(options.selection)), options.quiet, options.selection
        with Progress(count + hidden, 1, number, quiet=quiet, verbose=options.verbose, noun="step") as progress:

            def step(place: Place | None) -> None:
                notes.extend([place.note] if place and place.note else [])
                progress.step()

            read = read_parts(
                source, prompt, cuts, rows=rows, everywhere=everywhere, selection=chosen, cut=how, step=step
            )
        if obstacle := read["run"][0]["obstacle"]:
            notes.append(f"no part can be hidden: {obstacle}")
        return Report("parts", source.about, (prompt,), warnings=tuple(notes), answer=read)

    return each_report(options, report)


def _cut(prompt: Prompt, how: str | None, messages: Sequence[MessageText] | None) -> tuple[str, tuple[TextPart, ...]]:
    if how == "roles" and messages is None:
        raise InputError("--cut roles needs a chat", "add --chat, or choose lines, paragraphs, sentences or words")
    within = None if messages is None else message_spans(prompt.text, messages)
    if how == "roles" or (how is None and len(within or ()) > 1):
        return "roles", named_parts(prompt, within or ())
    least = {"paragraphs": 3, "lines": 2, "sentences": 2, "words": 1}  # two paragraphs are often notes and a question
    for way in least if how is None else (how,):
        parts = parts_of(prompt, way, within)
        if sum(part.kind == "given" for part in parts) >= least[way]:
            break
    return way, parts


def _answered(
    source: Source, prompt: Prompt, given: str | None, messages: Sequence[MessageText] | None, *, quiet: bool
) -> tuple[Prompt, tuple[str, ...]]:
    """The prompt with an answer after it, and notes: that given, a chat's last message, or what the model writes."""
    if not isinstance(source, Predicting) or not source.has_lm_head:
        if given is None:
            return prompt, ()
        raise InputError("--answer needs a model that writes text", "an encoder has no answer")
    if given is not None:
        end = len(prompt.text.rstrip())
        start = end - len(given.strip())
        if prompt.text[start:end] == given.strip() and start > 0:
            return prompt.ending_with_answer(start, end), ()
        return source.answered(prompt, given), ()
    last = messages[-1] if messages and messages[-1].role == "assistant" else None
    if last and (says := [piece.strip() for piece in (*last.content, *last.calls) if piece.strip()]):
        at = prompt.text.rfind(says[-1])
        if at < 0 or says[0] not in prompt.text:
            raise InputError("the last message is not in the chat's text as it was given", "give it as --answer")
        end = at + len(says[-1])
        return prompt.ending_with_answer(prompt.text.rindex(says[0], 0, end), end), ()
    with counted_tokens(source, _ANSWER_TOKENS, quiet=quiet):
        try:
            written = source.written(prompt, _ANSWER_TOKENS)
            if written.generated is not None and not written.generated.tokens:
                hint = "give --answer, or --chat if it is a message"
                raise InputError("the model writes nothing after this text", hint)
            return written, ()
        except LoadError as error:
            return prompt, (f"the answer is the likeliest next token: {error.message}",)
