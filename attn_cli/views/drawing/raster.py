"""SVG as PNG and PDF, by the libraries of the extra `figure`."""

import re
from importlib.util import find_spec

from attn_cli.errors import InputError

_LIBRARIES = {"png": ("resvg_py", "resvg-py"), "pdf": ("svg2pdf_py", "svg2pdf-py")}


def require(format: str) -> None:
    """InputError where the library for PNG or PDF is not there."""
    module, package = _LIBRARIES.get(format, ("", ""))
    if module and find_spec(module) is None:
        raise InputError(f"{format} needs {package}", "pip install 'attn-cli[figure]'; svg needs nothing")


def converted(svg: str, format: str, dpi: int) -> bytes:
    """An SVG as `format`: svg as it is, png with so many dots an inch, pdf with its fonts embedded."""
    if format == "png":
        import resvg_py

        size = {"dpi": dpi} if 'mm"' in svg[:200] else {"zoom": 2.0}  # a screen has a size in pixels
        return bytes(resvg_py.svg_to_bytes(svg_string=svg, background="#ffffff", **size))
    if format == "pdf":
        import svg2pdf_py

        in_points = re.sub(r'(width|height)="([\d.]+)mm"', _points, svg, count=2)  # it takes a pixel for a point
        return bytes(svg2pdf_py.svg_to_pdf(in_points, svg2pdf_py.FontDatabase.system()))
    return svg.encode("utf-8", "backslashreplace")


def _points(size: re.Match[str]) -> str:
    return f'{size[1]}="{float(size[2]) * 72 / 25.4:.4f}"'
