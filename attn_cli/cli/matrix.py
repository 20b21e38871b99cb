"""Draw attention weights or scores as heat maps, or save them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from attn_cli.call import Call
from attn_cli.cli.kit import options as o
from attn_cli.cli.kit.against_options import AgainstCommand, AgainstOptions
from attn_cli.cli.kit.command_options import TextCommandOptions
from attn_cli.cli.kit.dataclass_options import takes_options
from attn_cli.cli.kit.figure_options import FigureOptions
from attn_cli.cli.kit.hiding import HidingOptions
from attn_cli.cli.kit.measure_options import MeasureOptions
from attn_cli.cli.kit.memory import check_memory
from attn_cli.cli.kit.picking import picked_tokens
from attn_cli.cli.kit.run import MemoryEstimate, ReducersFor, Rows
from attn_cli.errors import ExitCode, InputError
from attn_cli.prompt import Prompt
from attn_cli.source import Source
from attn_cli.summaries.against.change_matrix import change_matrix
from attn_cli.summaries.calls.image_grid import patch_grid
from attn_cli.summaries.calls.in_words import is_in_words
from attn_cli.summaries.reduce import Reducer
from attn_cli.summaries.reducers.matrix import FullMatrix
from attn_cli.summaries.reducers.pooled import PooledMatrix
from attn_cli.views.view import View


@dataclass(frozen=True)
class KindOptions:
    """Options for which of the two kinds of matrices is shown."""

    scores: o.Scores = False
    weights: o.Weights = False


@dataclass(frozen=True)
class PickOptions:
    """Options for which queries and keys are shown."""

    token: o.TokenPick = None
    key: Annotated[
        str | None,
        typer.Option(
            "--key", metavar="WORD|INDEX", help="Show these keys only, as --token picks queries: who attends here?"
        ),
    ] = None


@takes_options
def matrix(
    options: TextCommandOptions,
    *,
    picks: PickOptions,
    kinds: KindOptions,
    drawing: FigureOptions,
    words: o.Words = False,
    reading: MeasureOptions,
    hiding: HidingOptions,
    against: AgainstOptions,
) -> ExitCode:
    """Draw attention weights or scores as heat maps, or save them.

    Screens show weights, or scores with --scores, pooled to fit. Files hold both, whole. --words has weights alone:
    scores of subwords don't add up. --by value and --by output show each key's share of what a row reads or outputs.
    --against and --against-model show the change of every weight: the other weight minus this one.
    --width draws a figure for a paper: maps of heads, or the text coloured by one query or key.
    Attention of a --token query to an image is drawn on its grid of patches.

    \b
    Examples:
      attn matrix "river bank"
      attn matrix "river bank" -m ./my-model -l 3 -H 0,5 --scores
      attn matrix "river bank" -m ./my-model -o weights.npz
      attn matrix "river bank" -m ./my-model -H 5.1 --width 84mm -o figure.pdf
      attn matrix "river bank" -m ./my-model -H 5.1 --key river
      attn matrix "river bank" -m ./my-model -l -1 --mean -f csv
      attn matrix "a river bank" --against "a savings bank" -m ./my-model -H 5.1
      attn matrix -m google/vit-base-patch16-224 --image cat.jpg -t [CLS] --mean
    """
    token, key = picks.token, picks.key
    drawing.check(options)
    pool = drawing.pool
    scores, weights = kinds.scores, kinds.weights
    merges = options.merges(words, scores=scores)
    hiding.check_scores(scores=scores)
    measure = reading.measure(words=merges)
    if scores and measure.by != "weight":
        raise InputError(f"--scores and --by {reading.by} at once", "leave out one of the two")
    if against.requested(
        {
            "--scores": scores,
            "--width": drawing.width is not None,
            "--key": key is not None,
            f"--by {reading.by}": measure.by != "weight",
            "--pool mean": pool == "mean",
        }
        | hiding.given
    ):
        return against.run(options, _changes(options, token, reading.mean, merges, drawing.color_scale))
    show_weights = weights or not scores
    keep_scores = scores or not weights  # data holds both, unless one is named
    rescale = hiding.rescale
    if key is not None and rescale:
        raise InputError("--key and --rescale at once", "shares of what is left take whole rows: leave out one")

    def full(rows: Rows, call: Call, *, weights: bool, scores: bool, most: int | None = None) -> FullMatrix:
        keys = None if key is None else picked_tokens(key, call.keys, "")[0]
        return FullMatrix(weights=weights, scores=scores, rows=rows, keys=keys, most=most, mean_heads=reading.mean,
                          by=measure.by, rescale=rescale)  # fmt: skip

    def reducers(view: View, source: Source) -> ReducersFor:
        def of_call(rows: Rows, call: Call) -> Sequence[Reducer]:
            if view.largest is None:
                both = keep_scores and not is_in_words(call)
                return [full(rows, call, weights=show_weights, scores=both)]
            colours_text = drawing.width is not None and (key is not None or (rows is not None and len(rows) == 1))
            if key is not None or colours_text:
                most = None if colours_text else view.largest[0]
                return [full(rows, call, weights=show_weights, scores=scores, most=most)]
            # drawn in the shape of the image, with no rows pooled
            if token is not None and patch_grid(call.keys) is not None:
                drawn = show_weights and measure.by == "weight"
                return [full(rows, call, weights=drawn, scores=scores)]
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
            n, m = len(prompt.tokens if rows is None else rows), len(prompt.tokens) if key is None else 1
            return check_memory(
                4 * kinds * heads * n * m,
                f"{heads:,} matrices of {n:,} x {m:,}",
                "choose layers, heads or rows with -l, -H and --token, add --mean, or look at a screen, which pools",
            )

        return estimate

    return options.run("matrix", reducers, token=token, memory=memory, hiding=hiding, words=merges, measure=measure,
                       scale=drawing.color_scale, settings=drawing.settings)  # fmt: skip


def _changes(options: TextCommandOptions, token: str | None, mean: bool, words: bool, scale: str) -> AgainstCommand:
    """What --against shows: pooled on a screen, whole in files."""

    def memory(view: View, source: Source, prompt: Prompt) -> None:
        if view.largest is None:
            heads = sum(1 if mean else layer.heads for layer in source.planned_layers(options.selection))
            n = len(prompt.tokens)
            rows = n if token is None else 1
            check_memory(8 * heads * rows * n, f"{heads:,} matrices of {rows:,} x {n:,}",
                         "choose layers, heads or rows with -l, -H and --token, or add --mean")  # fmt: skip

    return AgainstCommand(
        "change_matrix",
        lambda view, pair, rows: change_matrix(pair, rows, mean_heads=mean, largest=view.largest),
        token=token,
        words=words,
        scale=scale,
        memory=memory,
    )
