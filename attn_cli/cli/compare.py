"""Compare one word in two contexts, or the heads of several models on one text."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer

from attn_cli.call import Call
from attn_cli.cli.kit.options.text_command import ModelCommandOptions
from attn_cli.cli.kit.run.texts import whole_texts
from attn_cli.cli.kit.shell.signature import takes_options
from attn_cli.cli.kit.stderr.lines import print_notes
from attn_cli.cli.kit.stderr.status_line import StatusLine
from attn_cli.errors import ExitCode, InputError
from attn_cli.model.intervention import HeadPlace
from attn_cli.model.source import Source
from attn_cli.prompt import Prompt
from attn_cli.selection import Selection
from attn_cli.sources.memory import check_memory
from attn_cli.summaries.answers.compare import Journey, comparison_of
from attn_cli.summaries.answers.head_changes import ChangedHead, HeadChanges, kept_bytes, kept_call, row_changes
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.matrix import FullMatrix
from attn_cli.summaries.reducers.pull import PullOfKeys
from attn_cli.summaries.report import Report
from attn_cli.text import counted
from attn_cli.token_syntax import first_place, picked_tokens

_CallKey = tuple[HeadPlace, int]  # of a layer's first head, and which run of its module


@takes_options
def compare(
    options: ModelCommandOptions,
    first: Annotated[
        str, typer.Argument(metavar="TEXT", help="Read one text; - reads standard input.", show_default=False)
    ],
    second: Annotated[str | None, typer.Argument(metavar="TEXT", help="Read another text.", show_default=False)] = None,
    word: Annotated[
        list[str] | None,
        typer.Option(
            "--word",
            "-w",
            metavar="WORD|INDEX",
            help="Compare this word: a word, word#2 (second occurrence) or an index. Twice: one for each text.",
        ),
    ] = None,
    others: Annotated[
        list[str] | None,
        typer.Option(
            "--with", metavar="MODEL", help="Compare with this model on the same tokens; may be given several times."
        ),
    ] = None,
    top: Annotated[
        int | None, typer.Option("--top", "-k", help="With --with, show N heads.", min=1, metavar="N")
    ] = None,
) -> ExitCode:
    """Compare one word in two contexts, or the heads of several models on one text.

    The cosine tells how similar the word's two vectors are. The pull of a token is its share of the attention output
    for the word: weight times value, measured along that output; shares add to 1. In a model, block by block.
    Prompts that differ in one word before it also show the heads whose row of the word differs most.

    --with holds other models of the same shape against the first, a column each, such as checkpoints in their order:
    the share of a row's weight that moves in each head, mean over all rows, or in the row of --word.

    \b
    Examples:
      attn compare "river bank" "bank loan" --word bank
      attn compare "a river bank" "the bank gave me a loan" -w bank -m ./my-model
      attn compare "bank of the river" "a bank holiday" -w bank -w holiday --json
      attn compare "the river bank" -m ./base --with ./fine-tuned
      attn compare "the river bank" -m step-100 --with step-200 --with step-300
    """
    words = list(word or [])
    if others:
        return _models(options, first, second, words, others, top)
    if second is None:
        raise InputError("one text, and nothing to compare it with", "give another text, or a model: --with MODEL")
    if top is not None:
        raise InputError("--top needs --with", "add --with MODEL")
    return _texts(options, (first, second), words)


def _texts(options: ModelCommandOptions, texts: tuple[str, str], words: list[str]) -> ExitCode:
    if len(words) > 2:
        raise InputError(f"--word {len(words)} times, for two texts", "give it once, or once for each text")
    contents = whole_texts(texts)
    with options.view() as view:
        source = options.source()
        prompts = [source.read([text])[0] for text in contents]
        picks = words if len(words) == 2 else [words[0] if words else _common_word(*prompts)] * 2
        journeys, warnings = [], []
        with StatusLine("running the model", quiet=options.quiet):
            for prompt, pick in zip(prompts, picks, strict=True):
                rows, notes = first_place(pick, prompt)
                journeys.append(_journey(source, prompt, rows, options.selection))
                warnings += [*prompt.warnings, *notes]
        warnings = list(dict.fromkeys(warnings))
        print_notes(warnings, quiet=options.quiet)
        comparison = comparison_of(*journeys)
        view.show(Report("compare", source.about, tuple(prompts), warnings=tuple(warnings), answer=comparison))
    return ExitCode.DONE


def _models(
    options: ModelCommandOptions,
    text: str,
    second: str | None,
    words: list[str],
    others: Sequence[str],
    top: int | None,
) -> ExitCode:
    if second is not None:
        raise InputError("two texts and --with at once", "models are compared on one text")
    if len(words) > 1:
        raise InputError(f"--word {len(words)} times, for one text", "give it once")
    (content,) = whole_texts([text])
    with options.view() as view:
        source = options.source()
        (prompt,) = source.read([content])
        rows, notes = picked_tokens(words[0], prompt.tokens, prompt.text) if words else ([], ())
        warnings = (*prompt.warnings, *notes)
        print_notes(warnings, quiet=options.quiet)
        with StatusLine("running the model", quiet=options.quiet):
            kept = _kept_calls(source, prompt, options.selection)
            by_model = []
            for model in others:
                # the first model's adapters are its own
                other = replace(options, model=model, adapter=None).source()
                _check_same(source, other, options.selection, model)
                _check_same_tokens(prompt, other.read([content])[0], model)
                by_model.append(_changes_of(other, prompt, options.selection, kept, rows))
        places = [place for place in by_model[0] if all(place in changes for changes in by_model)]
        heads = tuple(ChangedHead(place, tuple(changes[place] for changes in by_model)) for place in places)
        if not heads:
            raise InputError("no attention of the text in the chosen layers", "choose other layers with --layer")
        answer = HeadChanges(tuple(others), heads, tuple(rows), top)
        view.show(Report("head_changes", source.about, (prompt,), warnings=warnings, answer=answer))
    return ExitCode.DONE


def _kept_calls(source: Source, prompt: Prompt, selection: Selection) -> dict[_CallKey, Call]:
    """A copy of every chosen layer's attention; LimitError where these don't fit into memory."""
    kept: dict[_CallKey, Call] = {}
    layers = len(source.planned_layers(selection))

    def visit(call: Call) -> None:
        if not kept:
            check_memory(
                kept_bytes(call) * layers,
                f"queries and keys of {counted(layers, 'layer')}",
                "choose layers with --layer, or a shorter text",
            )
        kept[_key_of(call)] = kept_call(call)

    source.each([prompt], selection, visit)
    return kept


def _changes_of(
    source: Source, prompt: Prompt, selection: Selection, kept: dict[_CallKey, Call], rows: Sequence[int]
) -> dict[HeadPlace, float]:
    """The change of every head of another model, by its place; of calls of one module the last counts."""
    changes: dict[HeadPlace, float] = {}

    def visit(call: Call) -> None:
        first, place = kept.get(_key_of(call)), call.place
        if first is None or (rows and call.queries != prompt.tokens):
            return
        if (first.h, first.n, first.m) != (call.h, call.n, call.m):
            raise InputError(f"layer {place.layer} has another shape in the other model", "compare models of one shape")
        moved = row_changes(first, call, rows or None).tolist()
        for head, change in zip(place.heads, moved, strict=True):
            changes[HeadPlace(place.layer, head, place.stream)] = change

    source.each([prompt], selection, visit)
    return changes


def _key_of(call: Call) -> _CallKey:
    place = call.place
    return HeadPlace(place.layer, place.heads[0], place.stream), place.call


def _check_same(source: Source, other: Source, selection: Selection, model: str) -> None:
    layers = [source.planned_layers(selection), other.planned_layers(selection)]
    if layers[0] != layers[1]:
        shapes = " and ".join(f"{len(each)} layers with {sum(x.heads for x in each)} heads" for each in layers)
        raise InputError(f"{model}: the models have {shapes}", "compare models of one shape, layer by layer")


def _check_same_tokens(prompt: Prompt, other: Prompt, model: str) -> None:
    ids = [
        [[token.id for token in tokens] for tokens in (each.tokens, *each.others.values())] for each in (prompt, other)
    ]
    if ids[0] != ids[1]:
        raise InputError(f"{model} tokenizes the text differently", "compare models with one tokenizer")


def _journey(source: Source, prompt: Prompt, rows: list[int], selection: Selection) -> Journey:
    """The word's vectors before and after each chosen block, and the attention calls that changed them."""
    journey = Journey(prompt, tuple(rows))

    def visit(call: Call) -> None:
        if call.queries == prompt.tokens:  # calls of other streams are skipped
            journey.summaries.append(reduce(call, PullOfKeys(rows), FullMatrix(rows=rows)))

    source.follow(prompt, rows, selection, visit, journey.steps.append)
    return journey


def _common_word(first: Prompt, second: Prompt) -> str:
    words = [dict.fromkeys(t.text.lower() for t in prompt.tokens if not t.special) for prompt in (first, second)]
    both = [word for word in words[0] if word in words[1]]
    if len(both) != 1:
        hint = f"both have {', '.join(both)}" if both else "they share no word; give --word twice, once for each"
        raise InputError("which word? give --word WORD", hint)
    return both[0]
