"""How a notebook shows results: asked when it does, and drawn by a room above, which is imported only then."""

from importlib import import_module
from typing import Any, Protocol

_ROOM = "attn_cli.views.notebook"  # a name: no room below imports one above


class Drawing(Protocol):
    """What draws results: `attn_cli.views.notebook`."""

    def bundle(self, thing: object) -> dict[str, Any]:
        """What a notebook shows of a result, by MIME type."""

    def figure(self, head: Any, width: float) -> str:
        """A figure of a recorded head as SVG, `width` millimetres wide."""

    def page_html(self, recording: Any, size: int) -> bytes:
        """The interactive page of a recording, of at most `size` bytes."""


def drawing() -> Drawing:
    """What draws results."""
    module: Any = import_module(_ROOM)
    return module


class Displayed:
    """Base class of results that a notebook shows as screens, figures or pages; `repr` stays one line."""

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        return drawing().bundle(self)
