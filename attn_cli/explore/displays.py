"""Commands that choose what panes show: numbers, scales, words or pieces, one head or the mean."""

from dataclasses import replace

from attn_cli.errors import InputError
from attn_cli.explore.commands import BOTH, HEADS, MATRIX, TEXT, Run, command, row
from attn_cli.explore.moves import in_row
from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import KINDS, Viewpoint
from attn_cli.summaries.calls.in_words import words_of
from attn_cli.views.drawing.palette import SCALES


def _zoomed(step: int) -> Run:
    def run(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
        forms = scene.forms(view)
        at = min(max(forms.index(scene.form(view)) + step, 0), len(forms) - 1) if step else 0
        form, down, across = forms[at], *scene.space(view).capacity(forms[at])
        top = view.query // form.rows * form.rows - down // 2 * form.rows
        left = view.key // form.keys * form.keys - across // 2 * form.keys
        return replace(view, form=form if at else None, top=max(top, 0), left=max(left, 0))

    return run


row("+|= -", "zoom: from blocks to cells with numbers", _zoomed(1), _zoomed(-1), shown="+ -", hint="zoom", panes=MATRIX)
row("0", "the whole matrix", _zoomed(0), panes=MATRIX)


def _statistics(scene: Scene, view: Viewpoint) -> list[str]:
    return [KINDS, *(_first_word(each.heading) for each in scene.statistics)]


def _first_word(heading: str) -> str:
    return heading.split(" ")[0]


@command("statistic", "tab", HEADS, _statistics, hint="number")
def statistic(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    """Colour heads by another number."""
    names = [*([KINDS] if scene.outs else []), *(each.name for each in scene.statistics)]
    if not words:
        at = names.index(view.statistic if view.statistic in names else scene.statistic(view).name)
        return replace(view, statistic=names[(at + 1) % len(names)])
    if words == KINDS:
        return replace(view, statistic=KINDS, sorted=False)
    found = [each.name for each in scene.statistics if words in (each.name, each.heading, _first_word(each.heading))]
    if not found:
        raise InputError(f"no statistic {words!r}: {', '.join(_statistics(scene, view)[1:])}")
    return replace(view, statistic=found[0])


@command("sort", "o", HEADS, _statistics, flag="sorted", hint="sort")
def sorted_heads(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    """A table of heads, sorted by the number."""
    if words:
        view = replace(statistic(scene, view, words), sorted=False)
    view = replace(view, sorted=not view.sorted)
    if not view.sorted:
        return view
    at, head = scene.ranked(view)[0]
    return replace(view, at=at, head=head)


@command("turn", "v", TEXT, hint="who looks here")
def turned(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    """Who attends to this token, and back."""
    turned = replace(view, by_column=not view.by_column)
    if scene.same_tokens(view):
        turned = replace(turned, query=view.key, key=view.query)
    return scene.on_heaviest(turned)


@command("scale", "s", BOTH, lambda scene, view: SCALES, hint="scale")
def scale(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    """Another colour scale: linear, sqrt, log, row."""
    if not words:
        steps = [each for each in SCALES if each != "row" or view.pane == "matrix"]  # one row is linear by itself
        now = "linear" if view.scale not in steps else view.scale
        return replace(view, scale=steps[(steps.index(now) + 1) % len(steps)])
    if words not in SCALES:
        raise InputError(f"no scale {words!r}: {', '.join(SCALES)}")
    return replace(view, scale=words)


@command("scores", "x", MATRIX, flag="scores", hint="scores")
def scores(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    """Scores in place of weights, and back."""
    if not view.scores:
        if scene.in_words(view):
            raise InputError("scores of subwords can't be summed: u shows tokens")
        if not scene.layer(view).shows_scores:
            raise InputError("this layer shows its weights alone, no scores were recorded")
    return replace(view, scores=not view.scores, by_value=False)


@command("value", "b", BOTH, flag="by_value")
def by_value(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    """Value norms: weight times the norm of the value, and back."""
    if not view.by_value:
        if scene.layer(view).value_norms is None:
            raise InputError("no value norms were recorded in this layer")
        if view.mean or scene.in_words(view):
            raise InputError("value norms are shown of one head's tokens: a or u turns off what is shown now")
    return in_row(scene, replace(view, by_value=not view.by_value, scores=False))


@command("mean", "a", BOTH, flag="mean")
def mean(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    """The mean of the layer's heads, and back."""
    return in_row(scene, replace(view, mean=not view.mean, by_value=False))


@command("words", "u", BOTH, flag="words")
def in_words(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    """Words in place of subwords."""
    if not scene.has_words(view):
        raise InputError("these tokens are not subwords")
    layer = scene.layer(view)
    places = []
    for place, tokens in ((view.query, layer.queries), (view.key, layer.keys)):
        starts = words_of(tokens).starts
        places.append(int(starts[place]) if view.words else int(starts.searchsorted(place, side="right")) - 1)
    turned = replace(view, words=not view.words, query=places[0], key=places[1])
    return replace(turned, form=None, top=0, left=0, scores=False, by_value=False)


@command("hide", "z", BOTH, lambda scene, view: ["sink"], flag="hide_sinks", hint="no sinks")
def hidden(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    """Leave out keys that are sinks: the first, or special tokens."""
    if words not in ("", "sink"):
        raise InputError(f"can't hide {words!r}: sink")
    return in_row(scene, replace(view, hide_sinks=not view.hide_sinks))
