"""The explorer's panes as lines of segments, which know no Textual: each is drawn by the file of its name."""

from importlib import import_module
from typing import Protocol, cast

from attn_cli.explore.panes.lines import Line
from attn_cli.explore.regions import Region
from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import Viewpoint


class PaneDrawing(Protocol):
    """The functions of a file that draws a pane."""

    @staticmethod
    def draw(scene: Scene, view: Viewpoint, region: Region) -> list[Line]:
        """The lines of the pane; the last says what is under the cursor."""

    @staticmethod
    def pointed(scene: Scene, view: Viewpoint, region: Region, x: int, y: int) -> Viewpoint | None:
        """The viewpoint that a click at a place of the pane means; None for none."""


def drawing_of(pane: str) -> PaneDrawing:
    """The module that draws a pane, found by the pane's name."""
    return cast(PaneDrawing, import_module(f"{__name__}.{pane}"))
