"""Commands that choose what panes show: a part of the matrix, which numbers, in which colours."""

from dataclasses import replace
from functools import partial

from attn_cli.errors import InputError
from attn_cli.explore.commands import BOTH, HEADS, MATRIX, TEXT, command, row
from attn_cli.explore.moves import in_row
from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import KINDS, Viewpoint
from attn_cli.views.drawing.palette import SCALES


def _zoomed(step: int, scene: Scene, view: Viewpoint) -> Viewpoint:
    forms = scene.forms(view)
    at = min(max(forms.index(scene.form(view)) + step, 0), len(forms) - 1) if step else 0
    form, down, across = forms[at], *scene.space(view).capacity(forms[at])
    top = view.query // form.rows * form.rows - down // 2 * form.rows
    left = view.key // form.keys * form.keys - across // 2 * form.keys
    return replace(view, form=form if at else None, top=max(top, 0), left=max(left, 0))


_ZOOMS = [partial(_zoomed, 1), partial(_zoomed, -1)]
row("+|= -", "zoom: from blocks to cells with numbers", *_ZOOMS, shown="+ -", hint="zoom", panes=MATRIX)
row("0", "the whole matrix", partial(_zoomed, 0), panes=MATRIX)


@command("tab", HEADS, hint="number")
def statistic(scene: Scene, view: Viewpoint) -> Viewpoint:
    """Colour heads by another number."""
    names = [*([KINDS] if scene.outs else []), *(each.name for each in scene.statistics)]
    at = names.index(view.statistic if view.statistic in names else scene.statistic(view).name)
    return replace(view, statistic=names[(at + 1) % len(names)])


@command("v", TEXT, hint="who looks here")
def turned(scene: Scene, view: Viewpoint) -> Viewpoint:
    """Who attends to this token, and back."""
    turned = replace(view, by_column=not view.by_column)
    if scene.same_tokens(view):
        turned = replace(turned, query=view.key, key=view.query)
    return scene.on_heaviest(turned)


@command("s", BOTH, hint="scale")
def scale(scene: Scene, view: Viewpoint) -> Viewpoint:
    """Another colour scale: linear, sqrt, log, row."""
    steps = [each for each in SCALES if each != "row" or view.pane == "matrix"]  # one row is linear by itself
    now = "linear" if view.scale not in steps else view.scale
    return replace(view, scale=steps[(steps.index(now) + 1) % len(steps)])


@command("x", MATRIX, hint="scores")
def scores(scene: Scene, view: Viewpoint) -> Viewpoint:
    """Scores in place of weights, and back."""
    if not view.scores and not scene.layer(view).shows_scores:
        raise InputError("this layer shows its weights alone, no scores were recorded")
    return replace(view, scores=not view.scores)


@command("z", BOTH, hint="no sinks")
def hidden(scene: Scene, view: Viewpoint) -> Viewpoint:
    """Leave out keys that are sinks: the first, or special tokens."""
    return in_row(scene, replace(view, hide_sinks=not view.hide_sinks))
