"""The commands of the explorer, in one table: keys, words after a colon, hints and help all come from it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from attn_cli.errors import InputError
from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import PANES, Against, Pane, Viewpoint
from attn_cli.summaries.calls.in_words import words_of
from attn_cli.views.drawing.palette import SCALES

Task = Literal["quit", "copy", "write", "read", "compare", "ask", "edit", "mouse", "help", "find", "back"]


@dataclass(frozen=True)
class Request:
    """Something that a command asks of the session or the terminal.

    task  what; `words` is what it is about: a file, a text, the beginning of a line that is asked for
    """

    task: Task
    words: str = ""


Outcome = Viewpoint | Request
Run = Callable[[Scene, Viewpoint, str], Outcome]
Choices = Callable[[Scene, Viewpoint], Sequence[str]]


@dataclass(frozen=True)
class Command:
    """One command.

    name     what the : line calls it
    keys     that mean it: characters, or Textual's names of keys that are none
    shown    the keys as people write them, with those of its like; "" for a command that has none, or is named there
    hint     a word or two for the footer; "" for none
    meaning  one line of help; "" for a command that another one's line is about, too
    run      makes the next viewpoint, or a request, from the scene, the viewpoint and what follows the name
    panes    in which it means something
    choices  what may follow the name
    flag     the field of the viewpoint that it turns on and off; after a colon no-NAME turns it off; "" for none
    """

    name: str
    keys: tuple[str, ...]
    shown: str
    hint: str
    meaning: str
    run: Run
    panes: tuple[Pane, ...] = PANES
    choices: Choices | None = None
    flag: str = ""


_FAR = 10  # steps of a capital letter


def _moved(down: int, across: int) -> Run:
    """A move of the cursor by so many cells, tokens, heads or layers."""

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
    """A place so many blocks further, in the last block at most; the same place for no steps."""
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
    """The cursor on another token; the other end of the cell goes to the heaviest."""
    place, total = view.subject, scene.size(view)[1 if view.by_column else 0]
    if down and scene.same_tokens(view):
        place = scene.layout(view).neighbour(place, down)
    else:
        place += across + down * _FAR
    return scene.on_heaviest(view.with_subject(min(max(place, 0), total - 1)))


def _paged(direction: int) -> Run:
    def run(scene: Scene, view: Viewpoint, words: str) -> Outcome:
        pages = {"matrix": scene.window(view).shape[0] - 1, "text": scene.text_lines(view)[0] - 1}
        lines = pages.get(view.pane, _FAR)
        return _moved(direction * max(lines, 1), 0)(scene, view, words)

    return run


def _to_end(last: bool) -> Run:
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


def _deeper(scene: Scene, view: Viewpoint, words: str) -> Outcome:
    at = PANES.index(view.pane)
    if at + 1 == len(PANES):
        raise InputError("there is nothing below one cell")
    return _in_pane(scene, view, PANES[at + 1])


def _in_pane(scene: Scene, view: Viewpoint, pane: Pane) -> Viewpoint:
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


def _pane(pane: Pane) -> Run:
    return lambda scene, view, words: _in_pane(scene, view, pane)


def _head_after(step: int) -> Run:
    def run(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
        at, head = view.at, view.head + step
        layers = scene.recording.layers
        if head < 0 and at > 0:
            at, head = at - 1, layers[at - 1].h - 1
        elif head >= layers[at].h and at + 1 < len(layers):
            at, head = at + 1, 0
        return _same_place(scene, view, at, head)

    return run


def _layer_after(step: int) -> Run:
    return lambda scene, view, words: _same_place(scene, view, view.at + step, view.head)


def _same_place(scene: Scene, view: Viewpoint, at: int, head: int) -> Viewpoint:
    """Another head at the same query; in the text the key is the one that it attends to most."""
    moved = scene.settled(replace(view, at=at, head=max(head, 0)))
    return scene.on_heaviest(moved) if view.pane == "text" else moved


def _zoomed(step: int) -> Run:
    def run(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
        forms = scene.forms(view)
        at = min(max(forms.index(scene.form(view)) + step, 0), len(forms) - 1) if step else 0
        form, down, across = forms[at], *scene.space(view).capacity(forms[at])
        top = view.query // form.rows * form.rows - down // 2 * form.rows
        left = view.key // form.keys * form.keys - across // 2 * form.keys
        return replace(view, form=form if at else None, top=max(top, 0), left=max(left, 0))

    return run


def _scale(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    if not words:
        return replace(view, scale=SCALES[(SCALES.index(view.scale) + 1) % len(SCALES)])
    if words not in SCALES:
        raise InputError(f"no scale {words!r}: {', '.join(SCALES)}")
    return replace(view, scale=words)


def _scores(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    if not view.scores:
        if view.words and scene.has_words(view):
            raise InputError("the scores of pieces don't add up: u shows tokens")
        if not scene.layer(view).shows_scores:
            raise InputError("this layer shows its weights alone, no scores were recorded")
    return replace(view, scores=not view.scores, by_value=False)


def _by_value(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    """What is read, in place of where it looks; of one head between tokens."""
    if not view.by_value:
        if scene.layer(view).value_norms is None:
            raise InputError("no lengths of values were recorded in this layer")
        if view.mean or view.against is not None or (view.words and scene.has_words(view)):
            raise InputError("what is read is shown of one head's tokens: a, u or c turns off what is shown now")
    view = replace(view, by_value=not view.by_value, scores=False)
    return scene.on_heaviest(view) if view.pane == "text" else view


def _turned(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    """The same token from the other side, where queries are keys; else the same cell."""
    turned = replace(view, by_column=not view.by_column)
    if scene.same_tokens(view):
        turned = replace(turned, query=view.key, key=view.query)
    return scene.on_heaviest(turned)


def _mean(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    view = replace(view, mean=not view.mean, by_value=False)
    return scene.on_heaviest(view) if view.pane == "text" else view


def _words(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    """Words in place of their pieces, or back; the cursor stays in its word."""
    if not scene.has_words(view):
        raise InputError("these tokens are no pieces of words")
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


def _hidden(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    if words not in ("", "sink"):
        raise InputError(f"can't hide {words!r}: sink")
    view = replace(view, hide_sinks=not view.hide_sinks)
    return scene.on_heaviest(view) if view.pane == "text" else view


def _statistic(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    names = [each.name for each in scene.statistics]
    if not words:
        at = names.index(scene.statistic(view).name)
        return replace(view, statistic=names[(at + 1) % len(names)], thumbnails=False)
    found = [each.name for each in scene.statistics if words in (each.name, each.heading, each.heading.split(" ")[0])]
    if not found:
        raise InputError(
            f"no statistic {words!r}: {', '.join(each.heading.split(' ')[0] for each in scene.statistics)}"
        )
    return replace(view, statistic=found[0], thumbnails=False)


def _sorted(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    """The table of heads by the statistic, from its top; or back to the map."""
    if words:
        view = replace(_statistic(scene, view, words), sorted=False)
    view = replace(view, sorted=not view.sorted)
    if not view.sorted:
        return view
    at, head = scene.ranked(view)[0]
    return replace(view, at=at, head=head)


def _next_key(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    """The next heaviest token of the table."""
    places = scene.heaviest(view, scene.text_lines(view)[1]).tolist()
    if not places:
        return view
    at = (places.index(view.partner) + 1) % len(places) if view.partner in places else 0
    return view.with_partner(places[at])


def _layer(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    for at, layer in enumerate(scene.recording.layers):
        if words in (str(layer.place.layer), f"{layer.place.stream} {layer.place.layer}"):
            return _same_place(scene, view, at, view.head)
    raise InputError(
        f"no layer {words!r}: {scene.recording.layers[0].place.layer} to {scene.recording.layers[-1].place.layer}"
    )


def _head(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    at, head = head_named(scene, view, words)
    return _same_place(scene, view, at, head)


def head_named(scene: Scene, view: Viewpoint, words: str) -> tuple[int, int]:
    """The head that "6" (of this layer) or "15.6" names, as its layer's place and its own; InputError for none."""
    layer, dot, head = words.rpartition(".")
    for at, each in enumerate(scene.recording.layers):
        if (at == view.at if not dot else str(each.place.layer) == layer) and head.lstrip("-").isdigit():
            heads = each.place.heads
            number = int(head) if int(head) >= 0 else heads[-1] + 1 + int(head)
            if number in heads:
                return at, heads.index(number)
    raise InputError(f"no head {words!r}: such as 6, or 15.6 for head 6 of layer 15")


def _against(scene: Scene, view: Viewpoint, words: str) -> Outcome:
    if not words:
        return replace(view, against=None, difference=False) if view.against else Request("ask", "against ")
    try:
        at, head = head_named(scene, view, words)
    except InputError:
        return Request("compare", words)
    pane: Pane = "matrix" if view.pane in ("heads", "cell") else view.pane
    return replace(view, against=Against(None, at, head), pane=pane, by_value=False)


def _difference(scene: Scene, view: Viewpoint, words: str) -> Outcome:
    if view.against is None:
        raise InputError("nothing is compared yet: c takes a text or a head")
    return replace(view, difference=not view.difference)


def _step(direction: int) -> Run:
    """The row from which the model wrote the token before or after."""

    def run(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
        queries = scene.grid(view).queries
        rows = [at - 1 for at, token in enumerate(queries) if token.generated and at > 0]
        if not rows:
            raise InputError("the model wrote nothing here: attn explore TEXT --generate 20")
        later = [row for row in rows if (row > view.query if direction > 0 else row < view.query)]
        row = (later[0] if direction > 0 else later[-1]) if later else rows[-1 if direction > 0 else 0]
        view = replace(view, query=row, by_column=False, pane="matrix" if view.pane == "heads" else view.pane)
        return scene.on_heaviest(view)

    return run


def _asks(task: Task, words: str = "") -> Run:
    return lambda scene, view, given: Request(task, given or words)


def _asked(name: str, task: Task) -> Run:
    """A request that needs words: without any, a line asks for them."""
    return lambda scene, view, given: Request(task, given) if given else Request("ask", f"{name} ")


def _thumbnails(scene: Scene, view: Viewpoint, words: str) -> Viewpoint:
    return replace(view, thumbnails=not view.thumbnails, sorted=False)


_MATRIX_TEXT: tuple[Pane, ...] = ("matrix", "text")


def _layers_of(scene: Scene, view: Viewpoint) -> list[str]:
    return list(dict.fromkeys(str(layer.place.layer) for layer in scene.recording.layers))


def _heads_of(scene: Scene, view: Viewpoint) -> list[str]:
    return [str(head) for head in scene.layer(view).place.heads]


def _statistics_of(scene: Scene, view: Viewpoint) -> list[str]:
    return [each.heading.split(" ")[0] for each in scene.statistics]


COMMANDS: tuple[Command, ...] = (
    Command("up", ("up", "k"), "arrows, hjkl", "", "move", _moved(-1, 0)),
    Command("down", ("down", "j"), "", "", "", _moved(1, 0)),
    Command("left", ("left", "h"), "", "", "", _moved(0, -1)),
    Command("right", ("right", "l"), "", "", "", _moved(0, 1)),
    Command("far-up", ("K",), "H J K L", "", "move ten at a time", _moved(-_FAR, 0)),
    Command("far-down", ("J",), "", "", "", _moved(_FAR, 0)),
    Command("far-left", ("H",), "", "", "", _moved(0, -_FAR)),
    Command("far-right", ("L",), "", "", "", _moved(0, _FAR)),
    Command("page-up", ("pageup",), "page up, down", "", "move by a page", _paged(-1)),
    Command("page-down", ("pagedown",), "", "", "", _paged(1)),
    Command("first", ("home",), "home, end", "", "to the first, the last layer, key or token", _to_end(False)),
    Command("last", ("end",), "", "", "", _to_end(True)),
    Command("open", ("enter",), "enter", "open", "deeper: heads, matrix, text, cell", _deeper),
    Command("back", ("escape", "backspace"), "esc", "back", "back; ends what is running", _asks("back")),
    Command("heads", ("1",), "1 2 3 4", "", "all heads, the matrix, the text, one cell", _pane("heads")),
    Command("matrix", ("2",), "", "", "", _pane("matrix")),
    Command("tokens", ("3",), "", "", "", _pane("text")),
    Command("cell", ("4",), "", "", "", _pane("cell")),
    Command("statistic", ("tab",), "tab", "statistic", "colour heads by another number", _statistic, ("heads",),
            _statistics_of),
    Command("thumbnails", ("t",), "t", "thumbnails", "small pictures of all heads", _thumbnails, ("heads",),
            flag="thumbnails"),
    Command("sort", ("o",), "o", "sort", "a table of heads, sorted by the number", _sorted, ("heads",), _statistics_of,
            "sorted"),
    Command("next-key", ("tab",), "tab", "next", "the next of the heaviest tokens", _next_key, ("text",)),
    Command("zoom-in", ("+", "="), "+ -", "zoom", "zoom: from blocks to cells with numbers",
            _zoomed(1), ("matrix",)),
    Command("zoom-out", ("-",), "", "", "", _zoomed(-1), ("matrix",)),
    Command("whole", ("0",), "0", "whole", "the whole matrix", _zoomed(0), ("matrix",)),
    Command("turn", ("v",), "v", "who looks here", "who attends to this token, and back", _turned, ("text",)),
    Command("scale", ("s",), "s", "scale", "another colour scale: linear, sqrt, log, row", _scale, _MATRIX_TEXT,
            lambda scene, view: SCALES),
    Command("scores", ("x",), "x", "scores", "scores in place of weights, and back", _scores, ("matrix",),
            flag="scores"),
    Command("value", ("b",), "b", "by value", "what is read: weight times the length of the value, and back", _by_value,
            _MATRIX_TEXT, flag="by_value"),
    Command("head-before", ("[",), "[ ]", "head", "the head before, after", _head_after(-1)),
    Command("head-after", ("]",), "", "", "", _head_after(1)),
    Command("layer-before", ("{",), "{ }", "layer", "the layer before, after", _layer_after(-1)),
    Command("layer-after", ("}",), "", "", "", _layer_after(1)),
    Command("hide", ("z",), "z", "hide sinks", "leave out keys that are sinks: the first, or special tokens", _hidden,
            _MATRIX_TEXT, lambda scene, view: ("sink",), "hide_sinks"),
    Command("words", ("u",), "u", "words", "words in place of their pieces", _words, _MATRIX_TEXT, flag="words"),
    Command("mean", ("a",), "a", "mean", "the mean of the layer's heads, and back", _mean, _MATRIX_TEXT,
            flag="mean"),
    Command("step-before", ("<",), "< >", "step", "what it looked at when it wrote a token",
            _step(-1)),
    Command("step-after", (">",), "", "", "", _step(1)),
    Command("against", ("c",), "c", "compare", "compare with another text, or a head such as 5.1; again ends it",
            _against, _MATRIX_TEXT),
    Command("difference", ("d",), "d", "difference", "the other less this one, and back", _difference, _MATRIX_TEXT,
            flag="difference"),
    Command("text", ("e",), "e", "edit", "another text in place of this one", _asked("text", "read")),
    Command("editor", ("E",), "E", "", "the same in your editor", _asks("edit")),
    Command("find", ("/",), "/", "find", "find a token: word, word#2, number, +; among heads 15.6",
            _asked("find", "find")),
    Command("find-next", ("n",), "n N", "", "the next place, the one before", _asks("find", "+1")),
    Command("find-before", ("N",), "", "", "", _asks("find", "-1")),
    Command("layer", (), "", "", "a layer by its number", _layer, PANES, _layers_of),
    Command("head", (), "", "", "a head: 6, or 15.6", _head, PANES, _heads_of),
    Command("copy", ("y",), "y", "", "the attn line that gives the same: shown and copied", _asks("copy")),
    Command("write", ("w",), "w", "write", "write what is seen; the file's suffix says how", _asked("write", "write")),
    Command("mouse", ("M",), "M", "", "the mouse off and on", _asks("mouse")),
    Command("command", (":",), ":", "command", "any of these by its name; tab completes", _asks("ask")),
    Command("help", ("?",), "?", "keys", "these keys; again closes them", _asks("help")),
    Command("quit", ("q",), "q", "quit", "leave", _asks("quit")),
)  # fmt: skip


def command_of(key: str, pane: Pane) -> Command | None:
    """The command of a key in a pane."""
    return next((each for each in COMMANDS if key in each.keys and pane in each.panes), None)


def command_named(name: str, pane: Pane) -> Command:
    """The command of a name, preferring one that the pane has; InputError that lists names for none."""
    named = [each for each in COMMANDS if each.name == name or name == f"no-{each.name}"]
    if not named:
        near = [each.name for each in COMMANDS if each.name.startswith(name[:2])]
        raise InputError(f"no command {name!r}" + (f": {', '.join(near[:5])}" if near else "; ? lists them"))
    if pane not in named[0].panes:
        raise InputError(f"{named[0].name} is for {' and '.join(named[0].panes)}")
    return named[0]


def completions(line: str, scene: Scene, view: Viewpoint) -> list[str]:
    """What a : line may go on as: names of commands, or what may follow one."""
    name, space, rest = line.partition(" ")
    if not space:
        return sorted(each.name for each in COMMANDS if each.name.startswith(name) and view.pane in each.panes)
    return list(_continued(name, rest, scene, view))


def _continued(name: str, rest: str, scene: Scene, view: Viewpoint) -> Iterator[str]:
    for each in COMMANDS:
        if each.name == name and each.choices is not None:
            yield from (f"{name} {choice}" for choice in each.choices(scene, view) if choice.startswith(rest))
