"""Moves of the explorer's cursor: by cells, tokens, heads, layers and panes."""

from dataclasses import replace
from functools import partial

from attn_cli.errors import InputError
from attn_cli.explore.commands import HEADS, TEXT, command, row
from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import PANES, Viewpoint
from attn_cli.summaries.standing_out import families_of
from attn_cli.summaries.told.story import Cell
from attn_cli.token_syntax import picked_tokens

FAR = 10  # steps of a capital letter


def _moved(down: int, across: int, scene: Scene, view: Viewpoint) -> Viewpoint:
    if view.pane == "heads":
        return replace(view, at=view.at + across, head=max(view.head + down, 0))
    if view.pane == "text":
        return _token_moved(scene, view, down, across)
    form = scene.form(view)
    rows, keys = (form.rows, form.keys) if view.pane == "matrix" else (1, 1)
    query = _stepped(view.query, down, rows, scene.size(view)[0])
    moved = replace(view, query=query, key=_stepped(view.key, across, keys, scene.size(view)[1]))
    return scene.snapped(moved) if view.pane == "matrix" else moved


def _stepped(place: int, steps: int, block: int, total: int) -> int:
    return place if steps == 0 else min(max(place // block + steps, 0), (total - 1) // block) * block


def _token_moved(scene: Scene, view: Viewpoint, down: int, across: int) -> Viewpoint:
    place, total = view.subject, scene.size(view)[1 if view.by_column else 0]
    image = scene.patches(view)
    if down and image is not None and place in image[0]:
        place += down * image[0].shape[1]
    elif down and scene.same_tokens(view):
        place = scene.layout(view).neighbour(place, down)
    else:
        place += across + down * FAR
    return scene.on_heaviest(view.with_subject(min(max(place, 0), total - 1)))


_AROUND = (-1, 0), (1, 0), (0, -1), (0, 1)
row("up|k down|j left|h right|l", "move", *(partial(_moved, *to) for to in _AROUND), shown="arrows, hjkl", is_step=True)
_FAR = (partial(_moved, FAR * down, FAR * across) for down, across in _AROUND)
row("K|pageup J|pagedown H L", "move ten at a time", *_FAR, shown="H J K L, page up, down", is_step=True)


def _to_end(last: bool, scene: Scene, view: Viewpoint) -> Viewpoint:
    n, m = scene.size(view)
    if view.pane == "heads":
        return replace(view, at=len(scene.recording.layers) - 1 if last else 0)
    if view.pane == "text":
        return scene.on_heaviest(view.with_subject((m if view.by_column else n) - 1 if last else 0))
    return scene.snapped(replace(view, key=m - 1 if last else 0))


_ENDS = [partial(_to_end, False), partial(_to_end, True)]
row("home end", "to the first, the last layer, key or token", *_ENDS, shown="home, end")


@command("enter", PANES[:-1], hint="open")
def deeper(scene: Scene, view: Viewpoint) -> Viewpoint:
    """Deeper: heads, matrix, text, cell."""
    return _in_pane(PANES[PANES.index(view.pane) + 1], scene, view)


@command("escape backspace", shown="esc", hint="back")
def back(scene: Scene, view: Viewpoint) -> Viewpoint:
    """Back; ends what is running."""
    return replace(view, pane=PANES[max(PANES.index(view.pane) - 1, 0)])


def _in_pane(pane: str, scene: Scene, view: Viewpoint) -> Viewpoint:
    named = scene.named(view) if view.pane == "heads" else None
    return replace(view if named is None else at_cell(view, named[0]), pane=pane)


row("1 2 3 4", "all heads, the matrix, the text, one cell", *(partial(_in_pane, pane) for pane in PANES))


def in_row(scene: Scene, view: Viewpoint) -> Viewpoint:
    """The viewpoint with its cursor on the row's heaviest key where the text is shown, which begins there."""
    return scene.on_heaviest(view) if view.pane == "text" else view


def _same_place(scene: Scene, view: Viewpoint, at: int, head: int) -> Viewpoint:
    return in_row(scene, scene.settled(replace(view, at=at, head=max(head, 0))))


@command("space", hint="next word")
def next_needed(scene: Scene, view: Viewpoint) -> Viewpoint:
    """The next word of the first line, by the head that brings it."""
    views = [at_cell(view, cell) for _, cell in scene.words if cell]
    if not views:
        raise InputError("no needed word or link of words is known")
    return views[(views.index(view) + 1) % len(views) if view in views else 0]


def at_cell(view: Viewpoint, cell: Cell) -> Viewpoint:
    """The viewpoint on a cell by indices of layer, head, query and key, in the same pane."""
    at, head, query, key = cell
    return replace(view, at=at, head=head, query=query, key=key, by_column=False)


def _next_of_kind(letter: str, step: int, scene: Scene, view: Viewpoint) -> Viewpoint:
    heads = [out for family in families_of(scene.outs) for out in family if out.kind.words.startswith(letter)]
    if not heads:
        raise InputError("no such head stands out here" if scene.is_judged else "heads are being judged")
    places = [(out.call, out.at) for out in heads]
    now = (view.at, view.head)
    out = heads[(places.index(now) + step) % len(heads) if now in places else 0 if step > 0 else -1]
    if view.pane != "heads" or out.strongest is None:
        return _same_place(scene, view, out.call, out.at)
    return replace(view, at=out.call, head=out.at, query=out.strongest[0], key=out.strongest[1])


_OF_KINDS = [partial(_next_of_kind, letter, 1) for letter in "idpsf"]
row("i d p s f", "the next induction, duplicate, previous, self, focused head", *_OF_KINDS, panes=HEADS, hint="kind")
row(". ,", "the next head that stands out, the one before", *(partial(_next_of_kind, "", step) for step in (1, -1)))


def _head_after(step: int, scene: Scene, view: Viewpoint) -> Viewpoint:
    places = [(at, head) for at, layer in enumerate(scene.recording.layers) for head in range(layer.h)]
    now = places.index((view.at, view.head)) + step
    return _same_place(scene, view, *places[min(max(now, 0), len(places) - 1)])


row("[ ]", "the head before, after", partial(_head_after, -1), partial(_head_after, 1), hint="head")


def _layer_after(step: int, scene: Scene, view: Viewpoint) -> Viewpoint:
    return _same_place(scene, view, view.at + step, view.head)


row("{ }", "the layer before, after", partial(_layer_after, -1), partial(_layer_after, 1))


def _next_key(step: int, scene: Scene, view: Viewpoint) -> Viewpoint:
    places = scene.heaviest(view, scene.text_lines(view)[1]).tolist()
    if not places:
        return view
    at = (places.index(view.partner) + step) % len(places) if view.partner in places else 0
    return view.with_partner(places[at])


_NEXT_KEY = "the next of the heaviest tokens, shift-tab the one before"
_NEXT_KEYS = [partial(_next_key, 1), partial(_next_key, -1)]
row("tab shift+tab", _NEXT_KEY, *_NEXT_KEYS, shown="tab", panes=TEXT, is_step=True)


def _head_named(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    layer, dot, head = words.rpartition(".")
    for at, each in enumerate(scene.recording.layers):
        if (at == view.at if not dot else str(each.place.layer) == layer) and head.lstrip("-").isdigit():
            heads = each.place.heads
            number = int(head) if int(head) >= 0 else heads[-1] + 1 + int(head)
            if number in heads:
                return _same_place(scene, view, at, heads.index(number))
    raise InputError(f"no head {words!r}: such as 6, or 15.6 for head 6 of layer 15")


def _step_taken(direction: int, scene: Scene, view: Viewpoint) -> Viewpoint:
    rows = [at - 1 for at, token in enumerate(scene.layer(view).queries) if token.generated and at > 0]
    if not rows:
        raise InputError("nothing was generated here: attn explore TEXT --generate 20")
    later = [row for row in rows if (row > view.query if direction > 0 else row < view.query)]
    row = (later[0] if direction > 0 else later[-1]) if later else rows[-1 if direction > 0 else 0]
    view = replace(view, query=row, by_column=False, pane="matrix" if view.pane == "heads" else view.pane)
    return scene.on_heaviest(view)


row("< >", "the row that generated a token: before, after", partial(_step_taken, -1), partial(_step_taken, 1))


def found(scene: Scene, view: Viewpoint, words: str, step: int = 1) -> tuple[Viewpoint, str]:
    """The viewpoint on the next place (step 1), or the one before (-1), of a token or head, and which of how many."""
    if view.pane == "heads" and words.strip("-.0123456789") == "":
        return _head_named(scene, view, words), ""
    pane = "text" if view.pane == "heads" else view.pane
    view = view if view.pane == "text" else replace(view, by_column=False, pane=pane)
    layer, now = scene.layer(view), view.subject
    picked = picked_tokens(words, layer.keys if view.by_column else layer.queries, scene.recording.prompt.text)[0]
    places = [place for place in picked if place - 1 not in picked]
    after = [place for place in places if (place > now if step > 0 else place < now)]
    place = (after[0] if step > 0 else after[-1]) if after else places[0 if step > 0 else -1]
    number = f"{words}: {places.index(place) + 1:,} of {len(places):,}"
    return scene.on_heaviest(view.with_subject(place)), number
