"""SVG as PNG and PDF, by the libraries of the extra `figure`."""

import re
import struct
import unicodedata
import zlib
from importlib.util import find_spec
from typing import Any

from attn_cli.errors import InputError

_DPI = 300  # of a figure, which has a size in millimetres; a screen has one in pixels
_LIBRARIES = {"png": ("resvg_py", "resvg-py"), "pdf": ("svg2pdf_py", "svg2pdf-py")}


def require(format: str) -> None:
    """InputError where the library that makes the format, png or pdf, is not installed; other formats need none."""
    module, package = _LIBRARIES.get(format, ("", ""))
    if module and find_spec(module) is None:
        raise InputError(f"{format} needs {package}", "pip install 'attn-cli[figure]', or write .svg")


def converted(svg: str, format: str) -> bytes:
    """An SVG as `format`: svg as it is, png with 300 dots an inch, pdf with its fonts embedded."""
    if format == "png":
        import resvg_py

        if 'mm"' not in svg[:200]:
            return bytes(resvg_py.svg_to_bytes(svg_string=svg, background="#ffffff", zoom=2.0))
        return _with_dpi(bytes(resvg_py.svg_to_bytes(svg_string=svg, background="#ffffff", dpi=_DPI)))
    if format == "pdf":
        return _pdf(re.sub(r'(width|height)="([\d.]+)mm"', _points, svg, count=2))  # svg2pdf takes a pixel for a point
    return svg.encode("utf-8", "backslashreplace")


def _with_dpi(png: bytes) -> bytes:
    per_metre = round(_DPI / 0.0254)
    chunk = b"pHYs" + struct.pack(">IIB", per_metre, per_metre, 1)
    end = 8 + 4 + 4 + 13 + 4  # signature; length, name, data and checksum of the header
    return png[:end] + struct.pack(">I", 9) + chunk + struct.pack(">I", zlib.crc32(chunk)) + png[end:]


def _pdf(svg: str) -> bytes:
    """A PDF; characters that only a font of coloured pictures has, which can't be embedded, are written as U+1F389."""
    import svg2pdf_py

    fonts: Any = svg2pdf_py.FontDatabase.system()
    for text in (svg, *(_without_symbols(svg, first) for first in (0x1F000, 0x2600, 0x2190))):
        try:
            return bytes(svg2pdf_py.svg_to_pdf(text, fonts))
        except RuntimeError as error:
            failure = error
    raise failure


def _without_symbols(svg: str, first: int) -> str:
    r"""The SVG with symbols from a code point on as their numbers, and without what joins them or asks for colours.

    >>> _without_symbols("a 🎉\ufe0f", 0x1F000)
    'a U+1F389'
    """
    plain = svg.replace("\ufe0f", "").replace("\u200d", "")
    symbols = ("So", "Sk", "Cn")
    return "".join(f"U+{ord(c):04X}" if ord(c) >= first and unicodedata.category(c) in symbols else c for c in plain)


def _points(size: re.Match[str]) -> str:
    return f'{size[1]}="{float(size[2]) * 72 / 25.4:.4f}"'
