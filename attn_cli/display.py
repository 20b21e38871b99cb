"""Results in a notebook: drawn when it asks, by a room above, which is imported only then."""

from importlib import import_module
from typing import Any, Protocol

_ROOM = "attn_cli.views.notebook"  # a name: no room below imports one above


class Drawing(Protocol):
    """What the module that draws results in notebooks offers: `attn_cli.views.notebook`, which is imported late."""

    def bundle(self, thing: object) -> dict[str, Any]:
        """What a notebook shows of a result, `thing`: by MIME type ("text/plain", "text/html" ...) the text or data."""

    def figure(self, head: Any, width: float) -> str:
        """A picture of the weights of `head`, a recorded one, as the text of an SVG file, `width` millimetres wide."""

    def page_html(self, recording: Any, size: int) -> bytes:
        """The HTML page, at most `size` bytes long, in which all heads of a recording can be looked at."""


def drawing() -> Drawing:
    """The module that draws results, imported now."""
    module: Any = import_module(_ROOM)
    return module


class Displayed:
    """Base class of results that a notebook shows as screens, figures or pages; `repr` stays one line."""

    def __str__(self) -> str:
        return str(self._repr_mimebundle_()["text/plain"]).strip("\n")

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        return drawing().bundle(self)
