"""Scores or weights themselves, as heat maps or as arrays."""

from collections.abc import Sequence

from attn_cli.call import Call
from attn_cli.cli.kit import options as o
from attn_cli.cli.kit.dataclass_options import takes_options
from attn_cli.cli.kit.hiding import HidingOptions
from attn_cli.cli.kit.memory import check_memory
from attn_cli.cli.kit.run import MemoryEstimate, ReducersFor, Rows
from attn_cli.cli.kit.shared_options import MeasureOptions, TextCommandOptions
from attn_cli.errors import ExitCode, InputError
from attn_cli.prompt import Prompt
from attn_cli.sources import Source
from attn_cli.summaries.calls.image_grid import patch_grid
from attn_cli.summaries.calls.in_words import is_in_words
from attn_cli.summaries.reduce import Reducer
from attn_cli.summaries.reducers.matrix import FullMatrix
from attn_cli.summaries.reducers.pooled import PooledMatrix
from attn_cli.views.view import View


@takes_options
def matrix(
    options: TextCommandOptions,
    token: o.TokenPick = None,
    scores: o.Scores = False,
    weights: o.Weights = False,
    words: o.Words = False,
    pool: o.Pooling = "max",
    *,
    reading: MeasureOptions,
    hiding: HidingOptions,
) -> ExitCode:
    """Scores or weights themselves, as heat maps or as arrays.

    On a screen: weights, unless --scores; pooled where they are larger than the screen. In files: both, whole.
    With --words weights alone, for scores don't add up.
    --by value and --by written show what is read from each key, as shares of a row.
    What a query picked by --token attends to in an image is drawn as the image is, patch by patch.

    \b
    Examples:
      attn matrix "river bank"
      attn matrix "river bank" -m ./my-model -l 3 -H 0,5 --scores
      attn matrix "river bank" -m ./my-model -o weights.npz
      attn matrix "river bank" -m ./my-model -l -1 --mean -f csv
      attn matrix -m google/vit-base-patch16-224 --image cat.jpg -t [CLS] --mean
    """
    o.one_of(pool, ("max", "mean"), "--pool")
    merges = options.merges(words, scores=scores)
    hiding.check_scores(scores=scores)
    measure = reading.measure(words=merges)
    if scores and measure.by != "weight":
        raise InputError(f"--scores and --by {reading.by} at once", "leave out one of the two")
    show_weights = weights or not scores
    keep_scores = scores or not weights  # data holds both, unless one is named
    rescale = hiding.rescale

    def full(rows: Rows, *, weights: bool, scores: bool) -> FullMatrix:
        return FullMatrix(
            weights=weights, scores=scores, rows=rows, mean_heads=reading.mean, by=measure.by, rescale=rescale
        )

    def reducers(view: View, source: Source) -> ReducersFor:
        def of_call(rows: Rows, call: Call) -> Sequence[Reducer]:
            if view.largest is None:
                both = keep_scores and not is_in_words(call)
                return [full(rows, weights=show_weights, scores=both)]
            # drawn in the shape of the image, with no rows pooled
            if token is not None and patch_grid(call.keys) is not None:
                drawn = show_weights and measure.by == "weight"
                return [full(rows, weights=drawn, scores=scores)]
            return [
                PooledMatrix(
                    *view.largest, rows=rows, scores=kind, mean_heads=reading.mean, pooling=pool, by=measure.by,
                    rescale=rescale and not kind,
                )
                for kind, is_drawn in ((True, scores), (False, show_weights))
                if is_drawn
            ]  # fmt: skip

        return of_call

    def memory(view: View, source: Source) -> MemoryEstimate:
        kinds = rescale + (1 if merges else show_weights + keep_scores + (measure.by != "weight"))
        heads = sum(1 if reading.mean else layer.heads for layer in source.planned_layers(options.selection))

        def estimate(prompt: Prompt, rows: Rows) -> str:
            if view.largest is not None:
                return ""
            n, m = len(prompt.tokens if rows is None else rows), len(prompt.tokens)
            return check_memory(
                4 * kinds * heads * n * m,
                f"{heads:,} matrices of {n:,} x {m:,}",
                "choose layers, heads or rows with -l, -H and --token, add --mean, or look at a screen, which pools",
            )

        return estimate

    return options.run("matrix", reducers, token=token, memory=memory, hiding=hiding, words=merges, measure=measure)
