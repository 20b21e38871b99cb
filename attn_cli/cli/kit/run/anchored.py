"""The sentences that a text rests on: `attn parts --anchors`."""

from dataclasses import replace

from attn_cli.cli.kit.options.text_command import TextCommandOptions
from attn_cli.cli.kit.run.asked_answer import AskedAnswer
from attn_cli.cli.kit.run.documents import Documents
from attn_cli.cli.kit.run.text_cut import TextCut
from attn_cli.cli.kit.run.text_run import each_report
from attn_cli.cli.kit.stderr.lines import print_notes
from attn_cli.cli.kit.stderr.progress import Progress
from attn_cli.errors import ExitCode, InputError
from attn_cli.model.source import Predicting, Source
from attn_cli.prompt import Prompt
from attn_cli.sources import is_model
from attn_cli.summaries.parts.anchors import MOST_MASKED, anchors_of
from attn_cli.summaries.parts.text_parts import TextPart
from attn_cli.summaries.report import Report
from attn_cli.views.view import View

_MANY_PASSES = 15  # baseline runs; more are announced


def run_anchors(options: TextCommandOptions, divided: TextCut, documents: Documents, asked: AskedAnswer) -> ExitCode:
    """Print what later sentences of each text lose in log2 p, in bits, with each earlier one masked, in a run each.

    The sentences are those of the whole text; of a chat, and with --answer or --generate, those of the answer.

    divided    how to cut the text into parts
    documents  files that are read before each text
    asked      the answer that was given, or is to be written
    """
    if not is_model(options.model):
        raise InputError("--anchors needs a model that writes text", "choose one with --model")

    def report(source: Source, view: View, text: str, number: int | None) -> Report:
        text = documents.before(text)
        prompt = source.read([text], options.pair)[0]
        if not isinstance(source, Predicting) or not source.has_lm_head:
            raise InputError("--anchors needs a model that writes text", "an encoder continues none")
        messages = options.messages_with(text)
        if (messages is not None or asked.given is not None) and options.generate is None:
            prompt, _ = asked.continued(source, prompt, messages, quiet=options.quiet)
            messages = asked.before(messages)
        trace, sentences = _trace(prompt, divided, messages)
        masked = min(len(sentences) - 1, MOST_MASKED)
        passes = masked / 2
        if passes > _MANY_PASSES / 2 and len(prompt.tokens) > 1000:
            print_notes([f"about as much work as {passes:,.0f} baseline runs; larger parts take fewer "
                         "(--cut paragraphs)"], quiet=options.quiet)  # fmt: skip
        layers = len(source.planned_layers(options.selection))
        last = (masked, layers * passes / max(masked, 1))
        with Progress(
            layers + masked, 1, number or 0, quiet=options.quiet, verbose=options.verbose, noun="step", last=last
        ) as progress:
            answer = anchors_of(source, trace, sentences, options.selection, progress.step)
        return Report("anchors", source.about, (prompt,), answer.summaries, prompt.warnings, answer, number)

    return each_report(options, report)


def _trace(prompt: Prompt, divided: TextCut, messages: list[tuple[str, str]] | None) -> tuple[Prompt, list[TextPart]]:
    """The prompt whose answer is its trace, and its sentences; InputError for fewer than two."""
    _, parts = (divided if divided.how is not None else TextCut("sentences")).parts(prompt, messages)
    sentences = [part for part in parts if part.kind != "other" and part.tokens]
    if len(sentences) < 2 or sentences[1].start is None:
        raise InputError("--anchors takes two sentences or more", "choose finer parts with --cut lines")
    if prompt.generated is None:
        prompt = prompt.ending_with_answer(sentences[1].start, len(prompt.text.rstrip()))
    count = len(prompt.tokens)
    return prompt, [replace(part, tokens=tuple(x for x in part.tokens if x < count)) for part in sentences]
