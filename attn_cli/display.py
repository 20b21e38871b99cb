"""How a notebook shows results: asked when it does, and drawn by a room above, which the package names to this one."""

from collections.abc import Callable
from typing import Any, Protocol


class Drawing(Protocol):
    """What draws results: `attn_cli.views.notebook`."""

    def bundle(self, thing: object) -> dict[str, Any]:
        """What a notebook shows of a result, by MIME type."""

    def figure(self, head: Any, width: float) -> str:
        """A figure of a recorded head as SVG, `width` millimetres wide."""

    def page_html(self, recording: Any, size: int) -> bytes:
        """The interactive page of a recording, of at most `size` bytes."""


_imports: list[Callable[[], Any]] = []


def draw_with(imported: Callable[[], Any]) -> None:
    """Let results be drawn by the module that a function imports when it is first needed."""
    _imports[:] = [imported]


def drawing() -> Drawing:
    """What draws results."""
    module: Drawing = _imports[0]()
    return module


class Displayed:
    """Base class of results that a notebook shows as screens, figures or pages; `repr` stays one line."""

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        return drawing().bundle(self)
