"""Draw attention weights or scores as heat maps, or save them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from attn_cli.call import Call
from attn_cli.cli.kit.options import named as o
from attn_cli.cli.kit.options.command import TextCommandOptions
from attn_cli.cli.kit.options.hiding import HidingOptions
from attn_cli.cli.kit.run.text_run import CommandPlan, PickedRows, run
from attn_cli.cli.kit.shell.signature import option, takes_options
from attn_cli.errors import ExitCode, InputError
from attn_cli.model.source import Source
from attn_cli.prompt import Prompt
from attn_cli.selection import ranges
from attn_cli.sources.memory import check_memory
from attn_cli.summaries.calls.hidden_keys import of_whole_call
from attn_cli.summaries.calls.read_shares import By
from attn_cli.summaries.reduce import Reducer
from attn_cli.summaries.reducers.kinds.reducer import HeadKindsReducer
from attn_cli.summaries.reducers.matrix import Matrix, MatrixOf
from attn_cli.summaries.report import Report
from attn_cli.summaries.told.overview import overview_of, word_readers
from attn_cli.views.drawing.image import drawn_of_image
from attn_cli.views.drawing.panels import MOST_PANELS
from attn_cli.views.view import View, ViewSettings


@takes_options
def matrix(
    options: TextCommandOptions,
    *,
    token: str | None = o.TOKEN,
    key: str | None = option("--key WORD|INDEX", "Show these keys only, as --token picks queries: who attends here?"),
    scores: bool = option("--scores", "Show scores: scaled and masked, before the softmax."),
    scale: Literal["on", "off"] = option("--scale HOW", "With --scores: on, or off for q · k itself.", "on"),
    color_scale: o.ColorScale = o.COLOR_SCALE,
    words: bool = o.WORDS,
    by: By = o.BY,
    mean: bool = o.MEAN,
    width: str | None = o.WIDTH,
    hiding: HidingOptions,
) -> ExitCode:
    """Draw attention weights or scores as heat maps, or save them.

    Screens show weights, or scores with --scores, pooled to fit. Files hold both, whole. --words has weights alone,
    since scores of subwords don't add up. --by value and --by output show each key's share of what a row reads or
    outputs, --by rollout what reaches it from each token through all layers.
    Images are figures for a paper: maps of heads, or the text coloured by one query or key.
    Without -H screens, and figures that can't hold all heads, show the head that attn inspect opens.
    Attention of a --token query to an image has the shape of its grid of patches.

    \b
    Examples:
      attn matrix "river bank"
      attn matrix "river bank" -m ./my-model -l 3 -H 0,5 --scores
      attn matrix "river bank" -m ./my-model -o weights.npz
      attn matrix "river bank" -m ./my-model -H 5.1 -o figure.pdf
      attn matrix "river bank" -m ./my-model -H 5.1 --key river
      attn matrix "river bank" -m ./my-model -l -1 --mean -f csv
      attn matrix -m google/vit-base-patch16-224 --image cat.jpg -t [CLS] --mean
    """
    merges, mean = options.merges(words, scores=scores, by=by), options.averages(mean, by)
    if scores and by != "weight":
        raise InputError(f"--scores and --by {by} at once", "leave out one of the two")
    if scale == "off" and not scores:
        raise InputError("--scale needs --scores", "add it")

    unchosen = options.chooses_no_head and (token, key, by) == (None, None, "weight") and not (scores or merges or mean)

    def plan(view: View, source: Source) -> CommandPlan:
        heads = sum(1 if mean else layer.heads for layer in source.planned_layers(options.selection))
        draws = view.settings.figure_width is not None
        too_many = draws and heads > MOST_PANELS
        chooses = (view.chooses or too_many) and unchosen and source.about["type"] != "table"

        def of_call(rows: PickedRows, call: Call, keys: PickedRows = None) -> Sequence[Reducer]:
            has_scores = scores or (call.shows_scores and by != "rollout")
            kinds: tuple[str, ...] = ("scores" if scores else "weights" if by == "weight" else "shares",)
            most: tuple[int | None, int | None] = view.largest or (None, None)
            if view.largest is None:  # data holds all
                known = {"weights": not scores, "scores": has_scores, "shares": by != "weight"}
                kinds = tuple(kind for kind, is_known in known.items() if is_known)
            if view.largest and key is None:
                most, rows = drawn_of_image(rows, call, most)
            if draws and (key is not None or (rows is not None and len(rows) == 1)):
                most = None, None  # the text is coloured
            elif key is not None:
                most = most[0], None
            chosen = [of_whole_call(HeadKindsReducer(), call), *word_readers(call)] if chooses else []
            return [*chosen, MatrixOf(most, kinds=kinds, rows=rows, keys=keys, mean_heads=mean, by=by)]

        if too_many and not chooses:
            reason = f"a figure of {heads} maps: it holds 1 to {MOST_PANELS}"
            raise InputError(reason, "choose heads with -l and -H, or add --mean")
        holds_both = view.largest is None and not (merges or scores or by == "rollout")
        kinds = 1 + holds_both + (by != "weight")

        def memory(prompt: Prompt, rows: PickedRows) -> str:
            if view.largest is not None:
                return ""
            n, m = len(prompt.tokens if rows is None else rows), len(prompt.tokens) if key is None else 1
            return check_memory(
                4 * kinds * heads * n * m,
                f"{heads:,} matrices of {n:,} x {m:,}",
                "choose layers, heads or rows with -l, -H and --token, add --mean, or use a screen, which pools",
            )

        maps = CommandPlan(of_call, token, hiding, merges, by, scale=color_scale, memory=memory, key=key)
        if chooses:
            return replace(maps, finish=lambda report: overview_of(report, on_screen=False), tells=True)
        return replace(maps, unscaled=scale == "off", finish=_say_no_scores if holds_both else None)

    return run(options, "matrix", plan, ViewSettings(heads=options.selection.pairs or (), predicts=unchosen))


def _say_no_scores(report: Report) -> Report:
    layers = {x.place.layer for x, matrix in report.parts_of(Matrix) if matrix.scores is None}
    line = f"no scores of layers {ranges(sorted(layers))}: their own code shows weights alone"
    return replace(report, warnings=(*report.warnings, line)) if layers else report
