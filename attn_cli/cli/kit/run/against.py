"""--against and --against-model: the same numbers of another text or another model, row beside row."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from attn_cli.call import Call
from attn_cli.cli.kit.options.refusals import refuse_beside
from attn_cli.cli.kit.options.text_command import TextCommandOptions
from attn_cli.cli.kit.run.loop import answer_each
from attn_cli.cli.kit.run.text_run import texts_and_reading
from attn_cli.cli.kit.run.texts import whole_texts
from attn_cli.cli.kit.stderr.lines import print_notes
from attn_cli.cli.kit.stderr.progress import Progress
from attn_cli.errors import ExitCode, InputError
from attn_cli.model.source import Source
from attn_cli.prompt import Prompt, Token
from attn_cli.sources import Reading
from attn_cli.sources.memory import check_memory
from attn_cli.summaries.against.alignment import Aligner, TokenAlignment
from attn_cli.summaries.against.kept import kept_bytes, kept_call, kept_rows
from attn_cli.summaries.against.side_by_side import SideBySide, side_by_side
from attn_cli.summaries.calls.in_words import InWords, has_words, prompt_in_words
from attn_cli.summaries.ranking import Ranking
from attn_cli.summaries.reduce import Part, Summary
from attn_cli.summaries.report import Report
from attn_cli.text import counted, listed
from attn_cli.token_syntax import picked_tokens
from attn_cli.views.view import DEFAULTS, View, ViewSettings, no_recording

PairMeasure = Callable[[View, SideBySide, Sequence[int] | None], Part]
"""Makes the part of a layer from both its calls and the picked rows, None for all."""

_WORTH_A_NOTE = 2**27  # bytes of kept queries and keys


@dataclass(frozen=True, repr=False, eq=False)
class AgainstCommand:
    """What a command compares of two runs, and how it shows it.

    command  its name, for the report
    measure  a function that makes the result of a layer from its attention in both runs, and the picked rows
    token    names the query rows, None for all
    words    whether the pieces of words are merged
    ranking  the order of the heads, None for that of the forward pass
    scale    the colour scale of weights: linear, sqrt, log or row
    memory   checks, before a model runs, the memory that the texts will take; may raise LimitError
    """

    command: str
    measure: PairMeasure
    token: str | None = None
    words: bool = False
    ranking: Ranking | None = None
    scale: str = "linear"
    memory: Callable[[View, Source, Prompt], object] | None = None


@dataclass(frozen=True, repr=False, eq=False)
class AgainstOptions:
    """Options for the other side of a comparison: another text, another model, or another precision."""

    against: Annotated[
        str | None,
        typer.Option("--against", metavar="TEXT", help="Compare with this text in its place; - reads stdin."),
    ] = None
    against_model: Annotated[
        str | None,
        typer.Option("--against-model", metavar="MODEL", help="Compare with this model on the same text."),
    ] = None
    against_dtype: Annotated[
        str | None,
        typer.Option("--against-dtype", metavar="DTYPE", help="Compare with this precision, of the same model or of "
                     "--against-model."),
    ] = None  # fmt: skip

    @property
    def any(self) -> bool:
        """True if any of these options is given."""
        return (self.against, self.against_model, self.against_dtype) != (None, None, None)

    def requested(self, others: Mapping[str, bool]) -> bool:
        """True if anything is compared; InputError for text and model at once.

        others  options that can't stand beside a comparison, and whether each is given; InputError if one is
        """
        if not self.any:
            return False
        models = self.against_model is not None or self.against_dtype is not None
        if self.against is not None and models:
            raise InputError("--against and --against-model at once", "compare one thing at a time")
        option = "--against-model" if models else "--against"
        refuse_beside(option, others, "it compares weights; leave out {other}")
        return True

    def run(
        self, options: TextCommandOptions, comparison: AgainstCommand, settings: ViewSettings = DEFAULTS
    ) -> ExitCode:
        """Print for each text a report of the differences between two runs, and return the worst exit code.

        The first run is the model's on the text; the second the same model's on the text of --against, or that of
        --against-model (else the same model) on the same text, in the precision of --against-dtype.
        """
        texts, reading = texts_and_reading(options)
        other_text = None if self.against is None else whole_texts([self.against])[0]
        with options.view(settings) as view:
            if view.records_alone:
                raise no_recording()
            source = options.source(**reading)
            other = self._other_source(options, source, reading)

            def report(number: int, text: str) -> Report:
                run = _Runs(source, other, options, comparison)
                return run.report(
                    view, text, other_text if other_text is not None else text, number if options.lines else None
                )

            return answer_each(texts, view, report, lines=options.lines, quiet=options.quiet)

    def _other_source(self, options: TextCommandOptions, source: Source, reading: Reading) -> Source:
        """The other model; the same one where only the text is another."""
        if self.against is not None:
            return source
        model, dtype = self.against_model or options.model, self.against_dtype or options.dtype
        other = replace(options, model=model, dtype=dtype)
        if self.against_model is not None:
            other = replace(other, revision=None, adapter=None)
        opened = other.source(**reading)
        layers = [source.planned_layers(options.selection), opened.planned_layers(options.selection)]
        if layers[0] != layers[1]:
            shapes = " and ".join(f"{len(each)} layers with {sum(x.heads for x in each)} heads" for each in layers)
            raise InputError(f"the models have {shapes}", "compare models of one shape, layer by layer")
        return opened


class _Runs:
    """Both runs of one text, and the parts that come of them."""

    def __init__(self, source: Source, other: Source, options: TextCommandOptions, comparison: AgainstCommand) -> None:
        self.source, self.other, self.options, self.comparison = source, other, options, comparison
        self.aligner = Aligner()
        self.waiting: dict[tuple[str, int, int], Call] = {}
        self.summaries: list[Summary] = []

    def report(self, view: View, text: str, other_text: str, number: int | None) -> Report:
        """The differences between the text and the other text, or between both models on it."""
        comparison = self.comparison
        prompts = [x.read([y], self.options.pair)[0] for x, y in ((self.source, text), (self.other, other_text))]
        if self.other is not self.source:
            check_same_tokens(prompts[0], prompts[1], str(self.other.about["model"]))
        merges = comparison.words and any(map(has_words, _streams(prompts[0])))
        displays = [prompt_in_words(prompt) if merges else prompt for prompt in prompts]
        rows: list[int] | None = None
        notes: tuple[str, ...] = ()
        if comparison.token is not None:
            rows, notes = picked_tokens(comparison.token, displays[0].tokens, displays[0].text)
        if comparison.memory is not None:
            comparison.memory(view, self.source, displays[0])
        self._run(view, prompts, displays[0], rows)
        alignment = self.aligner.of(displays[0].tokens, displays[1].tokens)
        if rows is not None and not any(row in alignment.first for row in rows):
            raise InputError(f"{comparison.token} has no partner in the other text", "pick a token that both have")
        shown = displays[:1] if self.other is not self.source else displays
        warnings = tuple(dict.fromkeys((*prompts[0].warnings, *prompts[1].warnings, *notes)))
        if self.other is self.source:
            warnings += _alone(displays[0].tokens, displays[1].tokens, alignment)
        return Report(
            comparison.command, self.source.about, tuple(shown), tuple(self.summaries), warnings, index=number,
            merged_from=len(prompts[0].tokens) if merges else None, scale=comparison.scale,
            ranking=comparison.ranking, other=self.other.about,
        )  # fmt: skip

    def _run(self, view: View, prompts: Sequence[Prompt], display: Prompt, rows: Sequence[int] | None) -> None:
        """Both runs: two texts as a batch where the source takes one, else one after the other."""
        together = self.other is self.source and self.source.batch_size > 1
        layers = len(self.source.planned_layers(self.options.selection))
        options = self.options
        with Progress(layers, 2, 0, quiet=options.quiet, verbose=options.verbose) as progress:
            for side, (source, prompt) in enumerate(((self.source, prompts[0]), (self.other, prompts[1]))):
                counts: Counter[tuple[int, str, int]] = Counter()

                def visit(call: Call, side: int = side, counts: Counter[tuple[int, str, int]] = counts) -> None:
                    place = call.place
                    text = place.text if together else side
                    number = counts[text, place.stream, place.layer]
                    counts[text, place.stream, place.layer] += 1
                    self._visit(view, call, (place.stream, place.layer, number), text, (display, rows, together))
                    progress.step()

                if together:
                    source.each(prompts, self.options.selection, visit)
                    break
                source.each([prompt], self.options.selection, visit)

    def _visit(
        self,
        view: View,
        call: Call,
        key: tuple[str, int, int],
        text: int,
        picked: tuple[Prompt, Sequence[int] | None, bool],
    ) -> None:
        """Keep the first text's call, or set the other's beside it; `picked` says which rows are wanted."""
        display, rows, together = picked
        if self.comparison.words and (has_words(call.queries) or has_words(call.keys)):
            call = InWords(call)
        if text == 0:
            some = _rows_of(self.comparison.token, call.queries, display, rows)
            if some is None or len(some) > 0:
                self.waiting[key] = call if together else self._kept(call, some)
            return
        if key not in self.waiting:
            return
        first = self.waiting.pop(key)
        some = _rows_of(self.comparison.token, first.queries, display, rows)
        pair = side_by_side(first, call, self.aligner)
        part = self.comparison.measure(view, pair, some)
        self.summaries.append(Summary(first.place, first.queries, first.keys, first.rule.describe(), (part,)))

    def _kept(self, call: Call, rows: Sequence[int] | None) -> Call:
        """The call for the second run: some rows of it, or its queries and keys; LimitError if these don't fit."""
        if rows is not None:
            return kept_rows(call, rows)
        if isinstance(call, InWords):
            kept: Call = InWords(kept_call(call.call))
            size = kept_bytes(kept.call)  # type: ignore[attr-defined]
        else:
            kept = kept_call(call)
            size = kept_bytes(kept)
        if not self.waiting:
            layers = len(self.source.planned_layers(self.options.selection))
            sentence = check_memory(
                size * layers, f"queries and keys of {counted(layers, 'layer')}",
                "choose layers or rows with -l and --token, or a shorter text",
            )  # fmt: skip
            loud = self.options.verbose or size * layers > _WORTH_A_NOTE
            print_notes([f"kept until the other model has run: {sentence}"], quiet=self.options.quiet or not loud)
        return kept


def _rows_of(
    pick: str | None, queries: Sequence[Token], display: Prompt, rows: Sequence[int] | None
) -> Sequence[int] | None:
    """The picked rows among a call's queries: None for all, empty where no query matches the pick."""
    if pick is None or queries is display.tokens:
        return rows
    try:
        return picked_tokens(pick, queries, display.text)[0]
    except InputError:
        return []


def _streams(prompt: Prompt) -> tuple[Sequence[Token], ...]:
    return (prompt.tokens, *prompt.others.values())


def check_same_tokens(prompt: Prompt, other: Prompt, model: str) -> None:
    """Raise InputError unless two models read a text as the same token ids: `prompt` is the one's, `other` the other's.

    model  the other model's name, for the message
    """
    ids = [[[token.id for token in tokens] for tokens in _streams(each)] for each in (prompt, other)]
    if ids[0] != ids[1]:
        raise InputError(f"{model} tokenizes the text differently", "compare models with one tokenizer")


def _alone(tokens: Sequence[Token], others: Sequence[Token], alignment: TokenAlignment) -> tuple[str, ...]:
    """A note on the tokens that have no partner; none where all have one."""
    parts = [
        f"{words}: {listed([f'{each[place].index} {each[place].text}' for place in places], 8)}"
        for words, each, places in (
            ("only in the first text", tokens, alignment.alone_first.tolist()),
            ("only in the second", others, alignment.alone_second.tolist()),
        )
        if places
    ]
    return ("; ".join(parts),) if parts else ()
