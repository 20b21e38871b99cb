"""Results in a notebook: drawn when it asks, by a room above, which is imported only then."""

from importlib import import_module
from typing import Any

_ROOM = "attn_cli.views.notebook"  # a name: no room below imports one above


def drawing() -> Any:
    """The module that draws results, imported now: its `bundle`, `figure` and `page_html`."""
    return import_module(_ROOM)


class Displayed:
    """Base class of results that a notebook shows as screens, figures or pages; `repr` stays one line."""

    def __str__(self) -> str:
        return str(self._repr_mimebundle_()["text/plain"]).strip("\n")

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        bundle: dict[str, Any] = drawing().bundle(self)
        return bundle
