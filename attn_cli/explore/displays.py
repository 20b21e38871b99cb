"""Commands that choose what panes show: numbers, scales, words or pieces, one head or the mean, a comparison."""

from dataclasses import replace

from attn_cli.errors import InputError
from attn_cli.explore.moves import head_named
from attn_cli.explore.request import Outcome, Request, Run
from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import KINDS, Against, Viewpoint
from attn_cli.summaries.calls.in_words import words_of
from attn_cli.views.drawing.palette import SCALES


def zoomed(step: int) -> Run:
    """A command that lets each drawn cell of the matrix stand for fewer queries and keys, `step` sizes finer."""

    def run(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
        forms = scene.forms(view)
        at = min(max(forms.index(scene.form(view)) + step, 0), len(forms) - 1) if step else 0
        form, down, across = forms[at], *scene.space(view).capacity(forms[at])
        top = view.query // form.rows * form.rows - down // 2 * form.rows
        left = view.key // form.keys * form.keys - across // 2 * form.keys
        return replace(view, form=form if at else None, top=max(top, 0), left=max(left, 0))

    return run


def thumbnails(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    """Show a small picture of each head's matrix in place of its number, or the numbers again."""
    return replace(view, thumbnails=not view.thumbnails, sorted=False)


def statistic(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    """Colour the map of heads by another statistic; InputError for a name that none has."""
    names = [*([KINDS] if scene.is_judged and scene.judge().outs else []), *(each.name for each in scene.statistics)]
    if not words:
        at = names.index(view.statistic if view.statistic in names else scene.statistic(view).name)
        return replace(view, statistic=names[(at + 1) % len(names)], thumbnails=False)
    if words == KINDS:
        return replace(view, statistic=KINDS, thumbnails=False, sorted=False)
    found = [each.name for each in scene.statistics if words in (each.name, each.heading, each.heading.split(" ")[0])]
    if not found:
        raise InputError(
            f"no statistic {words!r}: {', '.join(each.heading.split(' ')[0] for each in scene.statistics)}"
        )
    return replace(view, statistic=found[0], thumbnails=False)


def sorted_heads(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    """List the heads in order of a statistic, the largest first (of entropy the least), cursor on the first."""
    if words:
        view = replace(statistic(scene, view, words), sorted=False)
    view = replace(view, sorted=not view.sorted)
    if not view.sorted:
        return view
    at, head = scene.ranked(view)[0]
    return replace(view, at=at, head=head)


def turned(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    """Show the weights of all queries on one key where those of one query were shown, or back."""
    turned = replace(view, by_column=not view.by_column)
    if scene.same_tokens(view):
        turned = replace(turned, query=view.key, key=view.query)
    return scene.on_heaviest(turned)


def scale(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    """Take another colour scale of weights; InputError for an unknown one."""
    if not words:
        steps = [each for each in SCALES if each != "row" or view.pane == "matrix"]  # one row is linear by itself
        now = "linear" if view.scale not in steps else view.scale
        return replace(view, scale=steps[(steps.index(now) + 1) % len(steps)])
    if words not in SCALES:
        raise InputError(f"no scale {words!r}: {', '.join(SCALES)}")
    return replace(view, scale=words)


def scores(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    """Show scores in place of weights, or weights again; InputError where no scores were recorded."""
    if not view.scores:
        if view.words and scene.has_words(view):
            raise InputError("scores of subwords can't be summed: u shows tokens")
        if not scene.layer(view).shows_scores:
            raise InputError("this layer shows its weights alone, no scores were recorded")
    return replace(view, scores=not view.scores, by_value=False)


def by_value(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    """Show each key's share of weight times norm of its value in the row, in place of its weight, or weights again."""
    if not view.by_value:
        if scene.layer(view).value_norms is None:
            raise InputError("no value norms were recorded in this layer")
        if view.mean or view.against is not None or (view.words and scene.has_words(view)):
            raise InputError("value norms are shown of one head's tokens: a, u or c turns off what is shown now")
    view = replace(view, by_value=not view.by_value, scores=False)
    return scene.on_heaviest(view) if view.pane == "text" else view


def mean(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    """Show the mean of the layer's heads in place of one head, or the head again."""
    view = replace(view, mean=not view.mean, by_value=False)
    return scene.on_heaviest(view) if view.pane == "text" else view


def in_words(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    """Merge the pieces of words, or show them again; the cursor stays in its word."""
    if not scene.has_words(view):
        raise InputError("these tokens are not subwords")
    layer = scene.layer(view)
    places = []
    for place, tokens in ((view.query, layer.queries), (view.key, layer.keys)):
        starts = words_of(tokens).starts
        places.append(int(starts[place]) if view.words else int(starts.searchsorted(place, side="right")) - 1)
    return replace(
        view,
        words=not view.words,
        query=places[0],
        key=places[1],
        form=None,
        top=0,
        left=0,
        scores=False,
        by_value=False,
    )


def hidden(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    """Leave the keys blank at which sinks are expected (the first key, special tokens), or show them again."""
    if words not in ("", "sink"):
        raise InputError(f"can't hide {words!r}: sink")
    view = replace(view, hide_sinks=not view.hide_sinks)
    return scene.on_heaviest(view) if view.pane == "text" else view


def against(scene: Scene, view: Viewpoint, words: str) -> Outcome:
    """Compare with another head, such as "6" or "15.6"; "" ends a comparison, or without one asks for a head."""
    if not words:
        return replace(view, against=None, difference=False) if view.against else Request("ask", "against ")
    at, head = head_named(scene, view, words)
    layers = scene.layer(view), scene.recording.layers[at]
    if (layers[0].queries, layers[0].keys) != (layers[1].queries, layers[1].keys):
        raise InputError(f"{words} attends to other tokens: compare heads of one kind of attention")
    pane = "matrix" if view.pane in ("heads", "cell") else view.pane
    return replace(view, against=Against(at, head), pane=pane, by_value=False)


def difference(scene: Scene, view: Viewpoint, words: str) -> Outcome:
    """Show the other of two compared matrices less this one, weight by weight, in place of both; or both again."""
    if view.against is None:
        raise InputError("nothing is compared yet: c takes a head")
    return replace(view, difference=not view.difference)
