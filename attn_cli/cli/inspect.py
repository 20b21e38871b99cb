"""The overview: tokens, heads, most attended tokens, one matrix."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from attn_cli.call import Call
from attn_cli.cli.kit import options as o
from attn_cli.cli.kit.dataclass_options import takes_options
from attn_cli.cli.kit.drawing_options import DrawingOptions
from attn_cli.cli.kit.hiding import HidingOptions
from attn_cli.cli.kit.run import Look, ReducersFor, Rows
from attn_cli.cli.kit.shared_options import MeasureOptions, TextCommandOptions
from attn_cli.errors import ExitCode, InputError
from attn_cli.selection import Selection
from attn_cli.sources import Source
from attn_cli.summaries.answers.steps import WalkSteps
from attn_cli.summaries.calls.hidden_keys import keys_left
from attn_cli.summaries.calls.memo import memoised
from attn_cli.summaries.reduce import Reducer
from attn_cli.summaries.reducers.heads.head_statistics import HeadStatistics
from attn_cli.summaries.reducers.kinds.head_kinds import HeadKinds, KindTexts
from attn_cli.summaries.reducers.pooled import PooledMatrix
from attn_cli.summaries.reducers.received import ReceivedShares
from attn_cli.summaries.reducers.worthiest import WorthiestMatrix, with_worthiest_alone
from attn_cli.views.view import SizedView, View

# also in machine output, where the overview holds a pooled matrix; `attn matrix` gives the whole one
_LARGEST_IN_DATA = (64, 64)


@takes_options
def inspect(
    options: TextCommandOptions,
    scores: o.Scores = False,
    steps: o.Steps = False,
    token: o.TokenPick = None,
    by: o.By = "weight",
    words: o.Words = False,
    *,
    drawing: DrawingOptions,
    hiding: HidingOptions,
) -> ExitCode:
    """The overview: tokens, heads, most attended tokens, one matrix.

    Heads are named by what they look at (attn guide kinds), where the text is long enough. The matrix is that of the
    head that is most worth a look, with the reason; with --scores, --by, --hide or --no-special the mean over the
    chosen heads of the last chosen layer. It is pooled if it is larger than the screen. As .html it is an interactive
    page of all heads, in one file.

    \b
    Examples:
      attn inspect "he sat on the river bank"
      attn inspect "river bank" -m ./my-model --layer 2-4
      attn inspect "the cat sat" -m toy:the-cat-sat --steps --token cat
      attn inspect --file prompt.txt -m gpt2 -o page.html
    """
    drawing.check()
    merges = options.merges(words, scores=scores, steps=steps)
    measure = replace(MeasureOptions(by).measure(words=merges), together=True)
    if measure.by != "weight" and (scores or steps):
        raise InputError(f"--by {by} and --{'scores' if scores else 'steps'} at once", "leave out one of the two")
    hiding.check_scores(scores=scores)
    changes = {"--scores": scores, "--steps": steps, "--words": merges, "--by": measure.by != "weight", **hiding.given}
    changes["--lines"] = options.lines
    size = drawing.page_bytes(options, changes)
    if steps:
        hiding.refuse("--steps shows every key")
        return options.run("steps", partial(walk, options.selection), token=token)
    if token is not None:
        raise InputError("--token picks the query of a walk", "add --steps; attn top takes --token alone")

    def reducers(view: View, source: Source) -> Look:
        if isinstance(view, SizedView) and size is not None:
            view.size = size
        height, width = view.largest or _LARGEST_IN_DATA
        last = max((layer.layer for layer in source.planned_layers(options.selection)), default=0)

        plain = not scores and measure.by == "weight" and not hiding.rescale
        texts = memoised(lambda tokens: KindTexts([tokens]))

        def look(rows: Rows, call: Call) -> Sequence[Reducer]:
            kinds = HeadKinds(texts(call.keys))
            matrix = WorthiestMatrix(PooledMatrix(height, width, pooling=drawing.pool), kinds)
            return [HeadStatistics(), kinds, ReceivedShares(), matrix]

        def of_call(rows: Rows, call: Call) -> Sequence[Reducer]:
            if plain and rows is None and keys_left(call) is None:
                return look(rows, call)
            rescale = hiding.rescale
            received = ReceivedShares(rows, by=measure.by, rescale=rescale)
            reducers: list[Reducer] = [HeadStatistics(rows, rescale=rescale), received]
            if call.place.layer == last:
                mean = len(call.place.heads) > 1
                for share in (False, True) if rescale and view.largest is None else (rescale,):
                    pooled = PooledMatrix(height, width, rows=rows, scores=scores, mean_heads=mean, by=measure.by,
                                          pooling=drawing.pool, rescale=share)  # fmt: skip
                    reducers.append(pooled)
            return reducers

        return Look(
            of_call,
            lambda report: replace(report, summaries=with_worthiest_alone(report.summaries)),
            recordable=not any(changes.values()),
        )

    return options.run("inspect", reducers, hiding=hiding, words=merges, measure=measure)


def walk(selection: Selection, view: View, source: Source) -> ReducersFor:
    """The reducers for --steps: the walk through the chosen layers (default: the last), for all or the picked rows."""
    last = None
    if selection.layers is None:
        last = max((layer.layer for layer in source.planned_layers(selection)), default=0)

    def of_call(rows: Rows, call: Call) -> Sequence[Reducer]:
        return [WalkSteps(rows)] if last in (None, call.place.layer) else []

    return of_call
