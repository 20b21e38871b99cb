"""The `attn` line that gives what is seen, to be run again, put into a script or sent to somebody."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import Viewpoint


@dataclass(frozen=True)
class Origin:
    """What was read, as words of a command line.

    text     the words that name the text; none for a recording
    options  the model, or the recording, and what else decides what is read
    """

    text: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def with_text(self, text: str) -> "Origin":
        """The same with another text."""
        words = ("--", text) if text.startswith("-") else (text,)
        return replace(self, text=words)

    def words(self, command: str, options: Sequence[str]) -> list[str]:
        """The words of a command on it."""
        text = list(self.text)
        return [command, *([] if "--" in text else text), *self.options, *options, *(text if "--" in text else [])]


def command_words(origin: Origin, scene: Scene, view: Viewpoint) -> list[str]:
    """The words of the command that gives what the pane shows."""
    if view.pane == "heads":
        statistic = scene.statistic(view)
        return origin.words("heads", ["--sort", statistic.name] if view.sorted else [])
    place = scene.layer(view).place
    options = ["-l", str(place.layer), *([] if view.mean else ["-H", str(place.heads[view.head])])]
    options += ["--mean"] if view.mean else []
    if view.pane == "cell" and not origin.text:  # how positions turned queries takes the model
        return origin.words("matrix", [*options, "-t", str(view.query)])
    if view.pane == "cell":
        return origin.words("top", [*options, "-t", str(view.query), "--why", "--key", str(view.key)])
    if view.words and scene.has_words(view):
        options.append("--words")
    if view.hide_sinks:
        options += ["--hide", "sink"]
    if view.against is not None and view.against.text is not None:
        options += ["--against", view.against.text]
    if view.pane == "text" and not view.by_column:
        return origin.words("top", [*options, "-t", str(view.query), "-k", str(scene.text_lines(view)[1])])
    if view.pane == "matrix" and view.scores:
        options.append("--scores")
    elif view.scale != "linear":
        options += ["--color-scale", view.scale]
    return origin.words("matrix", options)
