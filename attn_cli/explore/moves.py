"""Moves of the explorer's cursor: by cells, tokens, heads, layers and panes."""

from dataclasses import replace

from attn_cli.errors import InputError
from attn_cli.explore.pane_table import NAMES, pane_named
from attn_cli.explore.request import Outcome, Run
from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import Viewpoint

FAR = 10  # steps of a capital letter


def moved(down: int, across: int) -> Run:
    """A command that moves the cursor so many steps down and across, up and left if negative."""

    def run(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
        if view.pane == "heads":
            return _head_moved(scene, view, down, across)
        if view.pane == "text":
            return _token_moved(scene, view, down, across)
        form = scene.form(view)
        rows, keys = (form.rows, form.keys) if view.pane == "matrix" else (1, 1)
        query = _stepped(view.query, down, rows, scene.size(view)[0])
        moved = replace(view, query=query, key=_stepped(view.key, across, keys, scene.size(view)[1]))
        return scene.snapped(moved) if view.pane == "matrix" else moved

    return run


def _stepped(place: int, steps: int, block: int, total: int) -> int:
    if steps == 0:
        return place
    return min(max(place // block + steps, 0), (total - 1) // block) * block


def _head_moved(scene: Scene, view: Viewpoint, down: int, across: int) -> Viewpoint:
    if view.sorted:
        ranked = scene.ranked(view)
        at, head = ranked[min(max(ranked.index((view.at, view.head)) + down + across, 0), len(ranked) - 1)]
        return replace(view, at=at, head=head)
    return replace(view, at=view.at + across, head=max(view.head + down, 0))


def _token_moved(scene: Scene, view: Viewpoint, down: int, across: int) -> Viewpoint:
    place, total = view.subject, scene.size(view)[1 if view.by_column else 0]
    if down and scene.same_tokens(view):
        place = scene.layout(view).neighbour(place, down)
    else:
        place += across + down * FAR
    return scene.on_heaviest(view.with_subject(min(max(place, 0), total - 1)))


def paged(direction: int) -> Run:
    """A command that moves the cursor down (1) or up (-1): by a page of the matrix or text, elsewhere by 10 steps."""

    def run(scene: Scene, view: Viewpoint, words: str) -> Outcome:
        pages = {"matrix": scene.window(view).shape[0] - 1, "text": scene.text_lines(view)[0] - 1}
        lines = pages.get(view.pane, FAR)
        return moved(direction * max(lines, 1), 0)(scene, view, words)

    return run


def to_end(last: bool) -> Run:
    """A command that moves the cursor to the first layer, key or token of the pane, or with `last` to the last."""

    def run(scene: Scene, view: Viewpoint, words: str) -> Outcome:
        n, m = scene.size(view)
        if view.pane == "heads":
            if view.sorted:
                at, head = scene.ranked(view)[-1 if last else 0]
                return replace(view, at=at, head=head)
            return replace(view, at=len(scene.recording.layers) - 1 if last else 0)
        if view.pane == "text" and not view.by_column:
            return scene.on_heaviest(replace(view, query=n - 1 if last else 0))
        moved = replace(view, key=m - 1 if last else 0)
        return scene.on_heaviest(moved) if view.pane == "text" else scene.snapped(moved)

    return run


def deeper(scene: Scene, view: Viewpoint, words: str) -> Outcome:
    """The viewpoint (what is shown, and the cursor) in the pane that Enter opens: matrix, then text, then one cell."""
    at = NAMES.index(view.pane)
    if at + 1 == len(NAMES):
        raise InputError(f"there is nothing below {pane_named(view.pane).words}")
    return _in_pane(scene, view, NAMES[at + 1])


def _in_pane(scene: Scene, view: Viewpoint, pane: str) -> Viewpoint:
    if pane == "cell":
        if view.mean or (view.words and scene.has_words(view)):
            what = "the mean of heads" if view.mean else "words"
            raise InputError(
                f"{what} has no products of its own: {'a' if view.mean else 'u'} shows a single head's tokens"
            )
        return replace(view, pane=pane)
    if pane == "text":
        return scene.on_heaviest(replace(view, pane=pane)) if view.pane == "heads" else replace(view, pane=pane)
    return replace(view, pane=pane)


def pane_opened(pane: str) -> Run:
    """A command that moves into a pane: "heads", "matrix", "text" or "cell"."""
    return lambda scene, view, words: _in_pane(scene, view, pane)


def head_after(step: int) -> Run:
    """A command that moves to the head `step` further, also into the layer after or before; it stays at both ends."""

    def run(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
        at, head = view.at, view.head + step
        layers = scene.recording.layers
        if head < 0 and at > 0:
            at, head = at - 1, layers[at - 1].h - 1
        elif head >= layers[at].h and at + 1 < len(layers):
            at, head = at + 1, 0
        return _same_place(scene, view, at, head)

    return run


def layer_after(step: int) -> Run:
    """A command that moves to the same head `step` layers further, or the last head of a smaller layer."""
    return lambda scene, view, words: _same_place(scene, view, view.at + step, view.head)


def _same_place(scene: Scene, view: Viewpoint, at: int, head: int) -> Viewpoint:
    moved = scene.settled(replace(view, at=at, head=max(head, 0)))
    return scene.on_heaviest(moved) if view.pane == "text" else moved


def next_key(step: int) -> Run:
    """A command that moves to the next key (1) or the one before (-1) in the table of heaviest keys, round its ends."""

    def run(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
        places = scene.heaviest(view, scene.text_lines(view)[1]).tolist()
        if not places:
            return view
        at = (places.index(view.partner) + step) % len(places) if view.partner in places else 0
        return view.with_partner(places[at])

    return run


def layer_chosen(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    """The viewpoint on the layer that `words` name, "3" or "encoder 3", at the same head; InputError without one."""
    for at, layer in enumerate(scene.recording.layers):
        if words in (str(layer.place.layer), f"{layer.place.stream} {layer.place.layer}"):
            return _same_place(scene, view, at, view.head)
    raise InputError(
        f"no layer {words!r}: {scene.recording.layers[0].place.layer} to {scene.recording.layers[-1].place.layer}"
    )


def head_chosen(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    """The viewpoint on the head that `words` name: "6" of this layer, "15.6" of layer 15; InputError without one."""
    at, head = head_named(scene, view, words)
    return _same_place(scene, view, at, head)


def head_named(scene: Scene, view: Viewpoint, words: str) -> tuple[int, int]:
    """The indices of layer and head that `words` name: "6" (of this layer) or "15.6"; InputError if there is none."""
    layer, dot, head = words.rpartition(".")
    for at, each in enumerate(scene.recording.layers):
        if (at == view.at if not dot else str(each.place.layer) == layer) and head.lstrip("-").isdigit():
            heads = each.place.heads
            number = int(head) if int(head) >= 0 else heads[-1] + 1 + int(head)
            if number in heads:
                return at, heads.index(number)
    raise InputError(f"no head {words!r}: such as 6, or 15.6 for head 6 of layer 15")


def step_taken(direction: int) -> Run:
    """A command that moves the cursor to the next (1) or previous (-1) query row that predicted a generated token."""

    def run(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
        queries = scene.grid(view).queries
        rows = [at - 1 for at, token in enumerate(queries) if token.generated and at > 0]
        if not rows:
            raise InputError("nothing was generated here: attn explore TEXT --generate 20")
        later = [row for row in rows if (row > view.query if direction > 0 else row < view.query)]
        row = (later[0] if direction > 0 else later[-1]) if later else rows[-1 if direction > 0 else 0]
        view = replace(view, query=row, by_column=False, pane="matrix" if view.pane == "heads" else view.pane)
        return scene.on_heaviest(view)

    return run
