"""The `attn` line that gives what is seen, to be run again, put into a script or sent to somebody."""

from collections.abc import Sequence
from dataclasses import dataclass

from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import Viewpoint


@dataclass(frozen=True)
class LineOrigin:
    """What was read, as words of a command line; `text` is empty for a recording, `options` name model or recording."""

    text: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def words(self, command: str, options: Sequence[str]) -> list[str]:
        """The words of the command line of `command` with these options on the same text and model."""
        text = list(self.text)
        return [command, *([] if "--" in text else text), *self.options, *options, *(text if "--" in text else [])]


def command_words(origin: LineOrigin, scene: Scene, view: Viewpoint, *, draws: bool = False) -> list[str]:
    """The words of an attn command that prints what the current pane shows, or draws it: of a cell its row's text."""
    if view.pane == "heads":
        by_number = ["--sort", scene.statistic(view).name] if draws else []
        return origin.words("heads", by_number if scene.shown_kinds(view) is None else ["--kinds"])
    place, row, key = scene.layer(view).place, ["-t", str(view.query)], ["--key", str(view.key)]
    hidden = ["--hide", "sink"] if view.hide_sinks else []
    options = ["-l", str(place.layer), "-H", str(place.heads[view.head]), *hidden]
    if view.pane == "cell" and not draws:
        return origin.words("matrix", [*options, *row, *key])
    if view.pane == "text" and not (view.by_column or draws):
        return origin.words("top", [*options, *row, "-k", str(scene.text_lines(view)[1])])
    if view.pane == "matrix" and view.scores:
        return origin.words("matrix", [*options, "--scores"])
    picked = [] if view.pane == "matrix" else key if view.by_column else row
    scale = "raw" if view.scale == "linear" else view.scale  # linear leaves out sinks there
    return origin.words("matrix", [*options, *picked, "--color-scale", scale])
