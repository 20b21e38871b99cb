"""The explorer's panes as lines of segments, which know no Textual: each is drawn by the file of its name."""

from importlib import import_module
from typing import Protocol, cast

from attn_cli.explore.panes.lines import Line
from attn_cli.explore.regions import Region
from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import Viewpoint


class PaneDrawing(Protocol):
    """What a module has that draws a pane, a part of the explorer's screen."""

    @staticmethod
    def draw(scene: Scene, view: Viewpoint, region: Region) -> list[Line]:
        """The lines of the pane; the last says what is under the cursor."""

    @staticmethod
    def pointed(scene: Scene, view: Viewpoint, region: Region, x: int, y: int) -> Viewpoint | None:
        """The viewpoint that a click means, at column x and line y of the pane, from 0; None for no meaning."""


def drawing_of(pane: str) -> PaneDrawing:
    """The module that draws a pane, found by the pane's name."""
    return cast(PaneDrawing, import_module(f"{__name__}.{pane}"))
