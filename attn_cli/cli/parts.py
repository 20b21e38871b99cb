"""Which part of a text, such as a document of a prompt, the answer came from."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer

from attn_cli.call import Call
from attn_cli.cli.kit import options as o
from attn_cli.cli.kit.dataclass_options import takes_options
from attn_cli.cli.kit.picking import picked_tokens
from attn_cli.cli.kit.progress import Progress
from attn_cli.cli.kit.shared_options import TextCommandOptions
from attn_cli.cli.kit.text_cuts import text_cut
from attn_cli.errors import ExitCode, LoadError
from attn_cli.intervention import Experiment, Intervention, Outcome
from attn_cli.prompt import Prompt
from attn_cli.sources import Source
from attn_cli.summaries.answers.parts import HiddenParts, PartsRead, hidden_parts, shares_read
from attn_cli.summaries.calls.memo import memoised
from attn_cli.summaries.predicting import Predicting
from attn_cli.summaries.reduce import Summary, reduce
from attn_cli.summaries.reducers.parts import SharesOfParts
from attn_cli.summaries.reducers.sinks import SinksOfHeads
from attn_cli.summaries.report import Report
from attn_cli.summaries.text_parts import TextPart, rows_of_last


@takes_options
def parts(
    options: TextCommandOptions,
    cut: Annotated[
        str | None,
        typer.Option("--cut", metavar="HOW|FILE",
                     help="Parts: lines, paragraphs, sentences, words, roles of a chat, or a file of start,end,name."),
    ] = None,
    token: o.TokenPick = None,
    everywhere: Annotated[
        bool,
        typer.Option("--everywhere", help="Hide a part from all that comes after it, not from the reading rows alone."),
    ] = False,
) -> ExitCode:  # fmt: skip
    """Which part of a text, such as a document of a prompt, the answer came from.

    For every part: the share of attention that the last part, such as a question, gives to it; and what becomes of the
    answer when it can't see it, which says whether the part was used.

    \b
    Examples:
      attn parts --file prompt.txt -m ./my-model
      attn parts --file prompt.txt -m ./my-model --cut paragraphs --generate 20
      attn parts --messages chat.json -m ./my-model --json
    """
    divided = text_cut(cut)

    def report(source: Source, text: str, number: int | None) -> Report:
        prompt = source.read([text], options.pair)[0]
        how, text_parts = divided.parts(prompt, _messages(options, text))
        asked, rows, notes = _rows(prompt, text_parts, token)
        experiment, warnings = _experiment(source, prompt, rows, everywhere=everywhere)
        if experiment is not None and experiment.target is None and token is None:
            asked, rows = "all", tuple(experiment.rows)  # all rows of an encoder make its mean vector
        summaries = _look(options, source, prompt, text_parts, rows)
        hidden = None if experiment is None else _hide(options, experiment, text_parts, everywhere=everywhere)
        answer = PartsRead(how, asked, prompt, shares_read(prompt, summaries), hidden)
        warnings = (*prompt.warnings, *notes, *warnings)
        return Report("parts", source.about, (prompt,), summaries, warnings, answer, number)

    return options.look_each(report)


def _messages(options: TextCommandOptions, text: str) -> list[tuple[str, str]] | None:
    """The messages of a chat with the text as the last one; None for a text that is none."""
    before = options.chat_before()
    if before is None:
        return None
    messages = [(message["role"], message["content"]) for message in before]
    return [*messages, ("user", text)] if text else messages


def _rows(prompt: Prompt, parts: Sequence[TextPart], token: str | None) -> tuple[str, tuple[int, ...], tuple[str, ...]]:
    """Which rows read, as `PartsRead.asked` names them, their numbers, and notes on how they were picked."""
    tokens = prompt.others.get("decoder", prompt.tokens)
    if token is not None:
        rows, notes = picked_tokens(token, tokens, prompt.text)
        return "picked", tuple(rows), notes
    if chosen := tuple(x.index - 1 for x in tokens if x.generated and x.index > 0):
        return "written", chosen, ()
    if "decoder" in prompt.others:
        return "all", tuple(x.index for x in tokens), ()
    return "last part", rows_of_last(prompt, parts), ()


def _experiment(
    source: Source, prompt: Prompt, rows: tuple[int, ...], *, everywhere: bool
) -> tuple[Experiment | None, tuple[str, ...]]:
    """The model's plain run, after which parts can be hidden; None, with the reason, where they can't."""
    if not isinstance(source, Predicting):
        return None, ()
    # an encoder before a decoder attends from all of its rows
    in_encoder = everywhere and "decoder" in prompt.others
    try:
        return source.experiment(prompt, rows, everywhere=in_encoder), ()
    except LoadError as error:
        return None, (f"no part can be hidden: {error.message}",)


def _look(
    options: TextCommandOptions, source: Source, prompt: Prompt, parts: Sequence[TextPart], rows: tuple[int, ...]
) -> tuple[Summary, ...]:
    """What the rows give to the parts, in every chosen layer that reads the text."""
    summaries: list[Summary] = []
    shares, sinks = SharesOfParts(parts, rows), SinksOfHeads()
    stream = "cross" if "decoder" in prompt.others else None
    is_text = memoised(lambda tokens: tuple(tokens) == prompt.tokens)
    layers = len(source.planned_layers(options.selection))

    def visit(call: Call) -> None:
        reads = call.place.stream == stream if stream else is_text(call.queries)
        if reads and is_text(call.keys):
            of_all = reduce(call, sinks)
            summaries.append(replace(of_all, parts=(reduce(call, shares).parts[0], *of_all.parts)))
        progress.step()

    with Progress(layers, 1, 0, quiet=options.quiet, verbose=options.verbose) as progress:
        source.each([prompt], options.selection, visit)
    return tuple(summaries)


def _hide(
    options: TextCommandOptions, experiment: Experiment, parts: Sequence[TextPart], *, everywhere: bool
) -> HiddenParts:
    """What hiding each part changes; a part of no tokens changes nothing."""
    n = len(experiment.tokens)
    interventions = {
        number: Intervention(
            hidden=part.tokens, rows=_rows_after(part, n) if everywhere else None, blind=options.selection
        )
        for number, part in enumerate(parts)
        if part.tokens
    }
    with Progress(len(interventions), 1, 0, quiet=options.quiet, verbose=options.verbose, noun="part") as progress:
        outcomes: dict[int, Outcome] = {}
        for number, outcome in zip(interventions, experiment.outcomes([*interventions.values()]), strict=True):
            outcomes[number] = outcome
            progress.step()
    every = [outcomes.get(number, Outcome()) for number in range(len(parts))]
    return hidden_parts(experiment, every, everywhere=everywhere)


def _rows_after(part: TextPart, n: int) -> tuple[int, ...]:
    """The rows after a part begins that are not of the part itself."""
    own = set(part.tokens)
    return tuple(row for row in range(part.tokens[0], n) if row not in own)
