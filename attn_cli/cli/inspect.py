"""Show the overview: what a text's answer needs, what words read, what heads do, one matrix."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from attn_cli.call import Call
from attn_cli.cli.kit.options import named as o
from attn_cli.cli.kit.options.command import TextCommandOptions, refuse_beside
from attn_cli.cli.kit.options.hiding import HidingOptions
from attn_cli.cli.kit.run.text_run import CommandPlan, PickedRows, ReducersFor, run
from attn_cli.cli.kit.shell.signature import takes_options
from attn_cli.cli.kit.stderr import print_notes
from attn_cli.errors import ExitCode, InputError
from attn_cli.model.source import Source
from attn_cli.selection import Selection
from attn_cli.summaries.answers.steps import WalkSteps
from attn_cli.summaries.calls.hidden_keys import of_whole_call
from attn_cli.summaries.reduce import Reducer
from attn_cli.summaries.reducers.heads import HeadStatistics
from attn_cli.summaries.reducers.keys import DecidingRows, ReceivedShares
from attn_cli.summaries.reducers.kinds.reducer import HeadKindsReducer
from attn_cli.summaries.reducers.matrix import MatrixOf
from attn_cli.summaries.report import Report
from attn_cli.summaries.told.overview import overview_of, word_readers
from attn_cli.views.drawing.image import drawn_of_image
from attn_cli.views.view import View, ViewSettings

_LARGEST_IN_DATA = (64, 64)  # of the matrix in machine output: attn matrix gives the whole one


@takes_options
def inspect(
    options: TextCommandOptions,
    steps: bool = o.STEPS,
    token: str | None = o.TOKEN,
    words: bool = o.WORDS,
    color_scale: o.ColorScale = o.COLOR_SCALE,
    width: str | None = o.WIDTH,
    *,
    hiding: HidingOptions,
) -> ExitCode:
    """Show the overview: what a text's answer needs, what words read, what heads do, one matrix.

    Of a model that writes it begins with what comes next, and the words and heads that this needs. Of an encoder it
    begins with what each word reads. Heads have the names of what they attend to (attn guide kinds). The matrix is that
    of the head that brings the word needed most, or stands out most. --token shows one token alone. -o page.html writes
    an interactive page of all heads, -o figure.pdf what is needed as bars, and the matrix.

    \b
    Examples:
      attn inspect "he sat on the river bank"
      attn inspect "river bank" -m ./my-model --layer 2-4
      attn inspect "he sat on the river bank" -t bank
      attn inspect "the cat sat" -m toy:the-cat-sat --steps --token cat
      attn inspect --file prompt.txt -m gpt2 -o page.html
    """
    merges = options.merges(words, steps=steps)
    changes = {"--steps": steps, "--words": merges, "--hide": bool(hiding.hide), "--lines": options.lines}
    format = options.written_format
    if format.name == "html" and any(changes.values()):
        reason = next(option for option, is_given in changes.items() if is_given)
        print_notes([f"with {reason} the page is the screen alone, not interactive"], quiet=options.quiet)
    if steps:
        hiding.refuse("--steps shows every key")
        if options.figure_width:
            raise InputError(f"{format.name} holds a figure, and --steps draws none", ".html and .txt hold the screen")
    elif token is not None:
        refuse_beside("--token", changes, "attn top takes --token and {other}")
        if not format.is_screen:
            reason = f"--token is for screens, and {format.name} holds rows"
            raise InputError(reason, "attn top TEXT --token WORD has them")

    def plan(view: View, source: Source) -> CommandPlan:
        if steps:
            return CommandPlan(_walk(options.selection, source), token, scale=color_scale)
        kinds = HeadKindsReducer()
        if token is not None:
            of_token = CommandPlan(lambda rows, call: [of_whole_call(kinds, call)], token, scale=color_scale)
            return replace(of_token, finish=_read_by_token, recordable=False, tells=True)

        def of_call(rows: PickedRows, call: Call) -> Sequence[Reducer]:
            of_heads = [HeadStatistics(rows), of_whole_call(kinds, call), ReceivedShares(rows)]  # the first for csv
            of_words = [] if merges or options.lines else word_readers(call)
            drawn = drawn_of_image(rows, call, view.largest) if view.largest else (_LARGEST_IN_DATA, rows)
            return [*of_heads, *of_words, MatrixOf(*drawn)]

        finish = partial(overview_of, on_screen=view.largest is not None)
        overview = CommandPlan(of_call, None, hiding, merges, scale=color_scale, finish=finish, tells=not merges)
        return replace(overview, recordable=not any(changes.values()))

    return run(options, "steps" if steps else "inspect", plan, ViewSettings(predicts=not steps))


def _read_by_token(report: Report) -> Report:
    if next(report.parts_of(DecidingRows), None) is None:
        raise InputError("--token picks a token of the text that is read", "attn top takes those of other streams")
    return report


def _walk(selection: Selection, source: Source) -> ReducersFor:
    last = None
    if selection.layers is None:
        last = max((layer.layer for layer in source.planned_layers(selection)), default=0)

    def of_call(rows: PickedRows, call: Call) -> Sequence[Reducer]:
        return [WalkSteps(rows)] if last in (None, call.place.layer) else []

    return of_call
