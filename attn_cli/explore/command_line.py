"""The `attn` line that gives what is seen, to be run again, put into a script or sent to somebody."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import Viewpoint


@dataclass(frozen=True)
class LineOrigin:
    """What was read, as words of a command line; `text` is empty for a recording, `options` name model or recording."""

    text: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def with_text(self, text: str) -> "LineOrigin":
        """The same origin with the words that name another text; after -- for a text that begins with a hyphen."""
        words = ("--", text) if text.startswith("-") else (text,)
        return replace(self, text=words)

    def words(self, command: str, options: Sequence[str]) -> list[str]:
        """The words of the command line of `command` with these options on the same text and model."""
        text = list(self.text)
        return [command, *([] if "--" in text else text), *self.options, *options, *(text if "--" in text else [])]


def command_words(origin: LineOrigin, scene: Scene, view: Viewpoint) -> list[str]:
    """The words of an attn command that prints what the current pane shows."""
    if view.pane == "heads":
        return origin.words("heads", [] if scene.shown_kinds(view) is None else ["--kinds"])
    options = _head_options(scene, view)
    if view.pane == "cell":
        return origin.words("matrix", [*options, "-t", str(view.query), "--key", str(view.key)])
    if view.pane == "text" and not view.by_column:
        return origin.words("top", [*options, "-t", str(view.query), "-k", str(scene.text_lines(view)[1])])
    key = ["--key", str(view.key)] if view.pane == "text" else []
    return origin.words("matrix", [*options, *key, *_look_options(view)])


def figure_words(origin: LineOrigin, scene: Scene, view: Viewpoint) -> list[str]:
    """The words of an attn command that draws what the current pane shows; of a cell the text in its row's colours."""
    if view.pane == "heads":
        return origin.words(
            "heads", ["--sort", scene.statistic(view).name] if scene.shown_kinds(view) is None else ["--kinds"]
        )
    options = [*_head_options(scene, view), *_look_options(view)]
    if view.pane != "matrix":
        options += ["--key", str(view.key)] if view.by_column else ["-t", str(view.query)]
    return origin.words("matrix", options)


def _head_options(scene: Scene, view: Viewpoint) -> list[str]:
    place = scene.layer(view).place
    hidden = ["--hide", "sink"] if view.hide_sinks else []
    return ["-l", str(place.layer), "-H", str(place.heads[view.head]), *hidden]


def _look_options(view: Viewpoint) -> list[str]:
    if view.pane == "matrix" and view.scores:
        return ["--scores"]
    return ["--color-scale", "raw" if view.scale == "linear" else view.scale]  # linear leaves out sinks there
