"""How a notebook shows results: asked when it does, and drawn by `attn_cli.views.notebook`.

Results belong to rooms below the one that draws, so that room is named here and imported when it is needed.
"""

from importlib import import_module
from typing import Any


def mime_bundle(thing: object) -> dict[str, Any]:
    """What a notebook shows of a result, by MIME type."""
    bundle: dict[str, Any] = import_module("attn_cli.views.notebook").bundle(thing)
    return bundle


def figure_of(thing: object, width: float) -> str:
    """A figure of a result as SVG, `width` millimetres wide."""
    svg: str = import_module("attn_cli.views.notebook").figure(thing, width)
    return svg


def page_of(recording: object, size: int) -> bytes:
    """The interactive page of a recording, of at most `size` bytes."""
    page: bytes = import_module("attn_cli.views.webpage.build").page_html(recording, size)
    return page


class Displayed:
    """Base class of results that a notebook shows as screens, figures or pages; `repr` stays one line."""

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        return mime_bundle(self)
