"""A figure for a paper, drawn by matplotlib: axes and words at places in points, always the same bytes."""

import io
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from attn_cli.errors import optional
from attn_cli.text import visible
from attn_cli.views.drawing.palette import Ramp, color_at, is_light

TITLE, LABEL, NOTE, LEAST = 7.0, 6.0, 5.5, 4.0  # of letters in points; a label smaller than the last is left out
GAP, BAR = 8.0, 44.0  # between panels; of the bar of colours with its numbers, its name and a gap before it
FAINT, FRAME, _MASKED = "#555555", "#c2185b", (222, 222, 222)
_POINT, _EDGE = 72 / 25.4, 2.0  # points in a millimetre, and around all that is drawn
_SAVED: dict[str, dict[str, Any]] = {
    "svg": {"dpi": 600, "metadata": {"Date": None}},
    "pdf": {"dpi": 600, "metadata": {"CreationDate": None}},  # dots of the images in it
    "png": {"dpi": 300},
}
_FONT = "DejaVu Sans"  # which matplotlib brings
_SETTINGS = {
    "text.parse_math": False,
    "pdf.fonttype": 42,  # TrueType
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "attn",
    "axes.edgecolor": "#888888",
    "axes.linewidth": 0.4,
    "axes.labelsize": NOTE,
    **{f"{axis}tick.labelsize": NOTE for axis in "xy"},
    **{f"{axis}tick.{rank}.size": 0.0 for axis in "xy" for rank in ("major", "minor")},
    **{f"{axis}tick.major.pad": 2.0 for axis in "xy"},
}


def is_installed() -> bool:
    """True if figures can be drawn."""
    return find_spec("matplotlib") is not None


def require() -> Any:
    """The package matplotlib; LoadError that says how to install it where it is missing."""
    return optional("matplotlib", "figure", "a figure needs", "figure", "font_manager", "patches", "textpath", "ticker")


def drawn(width: float, format: str, draw: Callable[["Sheet"], None]) -> bytes:
    """The file of a figure, `width` millimetres wide, in which `draw` places what it shows."""
    library = require()
    with library.rc_context():
        library.rcdefaults()  # whatever the user's own figures look like
        library.rcParams.update(_SETTINGS)
        sheet = Sheet(width)
        draw(sheet)
        return sheet.saved(format)


class Sheet:
    """A page `width` points wide that grows downwards: `top` is where the next panel begins."""

    def __init__(self, width: float) -> None:
        self.library = require()
        self.width, self.top = width * _POINT - 2 * _EDGE, 0.0
        self.figure = self.library.figure.Figure()
        self._placed: list[tuple[Any, float, float, float, float]] = []
        self.page = self.axes(0, 0, self.width, 0)
        self.page.axis("off")

    def begin(self) -> None:
        """Leave a gap below the panel before."""
        self.top += GAP if self.top else 0.0

    def axes(self, left: float, top: float, width: float, height: float) -> Any:
        """Axes of matplotlib whose box stands there, in points from the top left corner."""
        axes = self.figure.add_axes((0, 0, 1, 1), label=str(len(self._placed)))
        self._placed.append((axes, left, top, width, height))
        return axes

    def write(self, x: float, y: float, text: str, size: float, **look: Any) -> None:
        """Write `text` with its baseline at y."""
        text = drawable(text)
        self.page.text(x, y, text, fontsize=size, **{"family": fonts_of(text), "va": "baseline", **look})

    def title(self, text: str, left: float, room: float) -> None:
        """Write a title at the top, smaller or cut where it has no room."""
        size = min(max(TITLE * room / max(self.length(text, TITLE), 1.0), NOTE), TITLE)
        self.write(left, self.top + TITLE, self.fitted(text, size, room), size)

    def note(self, text: str, left: float = 0.0) -> None:
        """Write a note in grey, and go on below it; where it has no room it is broken between its parts, or cut."""
        (first, *rest), room = text.split(" · "), self.width - left
        lines = [first]
        for part in rest:
            longer = f"{lines[-1]} · {part}"
            if self.length(longer, NOTE) <= room:
                lines[-1] = longer
            else:
                lines.append(part)
        for line in lines:
            self.write(left, self.top + NOTE, self.fitted(line, NOTE, room), NOTE, color=FAINT)
            self.top += NOTE + 3

    def length(self, text: str, size: float) -> float:
        """How long a text is in points."""
        font = self.library.font_manager.FontProperties(family=fonts_of(text := drawable(text)), size=size)
        return float(self.library.textpath.text_to_path.get_text_width_height_descent(text, font, False)[0])

    def fitted(self, text: str, size: float, room: float) -> str:
        """The text, cut so that it is at most `room` points long."""
        shorter = (f"{text[:end].rstrip()}…" for end in range(len(text) - 1, 0, -1))
        whole = self.length(text, size) <= room
        return text if whole else next((cut for cut in shorter if self.length(cut, size) <= room), "…")

    def box(self, left: float, width: float, height: float, **look: Any) -> None:
        """A rectangle at the top."""
        self.page.add_patch(self.library.patches.Rectangle((left, self.top), width, height, **look))

    def color_bar(self, top: float, height: float, ramp: Ramp, title: str = "") -> None:
        """The scale of a title's numbers at the right, with three of them."""
        levels = np.linspace(1, 0, 64)[:, None]
        axes = self.axes(self.width - BAR + 8, top, 6, height)
        axes.imshow(colors(levels, ramp), aspect="auto", extent=(0, 1, 0, 1))
        middle = 0.5 if ramp.diverging else {"sqrt": 0.25, "log": 10**-1.5}.get(ramp.scale, 0.5)
        values = (ramp.low + share * (ramp.high - ramp.low) for share in (0.0, middle, 1.0))
        axes.set(xticks=[], yticks=(0, 0.5, 1), yticklabels=[f"{value:.2g}".replace("-", "−") for value in values])
        axes.yaxis.tick_right()
        axes.yaxis.set_label_position("right")
        name = next((one for one in ("weight", "score") if f"{one}s" in title), "")
        name += f", {ramp.scale} scale" * (ramp.scale in ("sqrt", "log") and not ramp.diverging)
        axes.set_ylabel(name, labelpad=2, color=FAINT)

    def saved(self, format: str) -> bytes:
        """The figure as a file, as high as what was placed."""
        wide, high = self.width + 2 * _EDGE, self.top + 2 * _EDGE
        self.page.set(xlim=(-_EDGE, wide - _EDGE), ylim=(high - _EDGE, -_EDGE))
        self._placed[0] = (self.page, -_EDGE, -_EDGE, wide, high)
        for axes, left, top, width, height in self._placed:
            box = ((left + _EDGE) / wide, 1 - (top + height + _EDGE) / high, width / wide, height / high)
            axes.set_position(box)
        self.figure.set_size_inches(wide / 72, high / 72)
        file = io.BytesIO()
        self.figure.savefig(file, format=format, **_SAVED[format])
        return file.getvalue()[file.getvalue().find(b"<svg") if format == "svg" else 0 :]  # pages hold no <?xml …>


def written(text: str) -> str:
    """The text as figures and pages have it: made visible, with a line's end for which more fonts have a glyph."""
    return visible(text).replace("␊", "↵")


def without_font(text: str) -> str:
    """The characters of a text, parted by blanks, for which this machine has no font; of many the first."""
    missing = [c for c in dict.fromkeys(written(text)) if not (c.isascii() or _font_with(c))]
    return " ".join(missing[:8]) + " …" * (len(missing) > 8)


def drawable(text: str) -> str:
    """The text made visible, with the number of each character for which this machine has no font."""
    return "".join(c if c.isascii() or _font_with(c) else f"<U+{ord(c):04X}>" for c in written(text))


def fonts_of(text: str) -> list[str]:
    """The fonts that have a text's characters: DejaVu Sans, then what this machine has."""
    return [*dict.fromkeys([_FONT, *(_font_with(c) or _FONT for c in text if not c.isascii())]), "sans-serif"]


@cache
def _font_with(character: str) -> str:
    return next((name for name in _fonts() if _glyph_of(name)(ord(character))), "")


@cache
def _fonts() -> list[str]:
    listed = require().font_manager.fontManager.ttflist
    names = {font.name for font in listed if (font.style, font.weight) == ("normal", 400)} - {_FONT}
    order = sorted(names, key=lambda name: ("CJK" not in name, "Sans" not in name, name))
    return [_FONT, *(name for name in order if not name.startswith("Last Resort"))]


@cache
def _glyph_of(font: str) -> Callable[[int], int]:
    manager = require().font_manager
    index: Callable[[int], int] = manager.get_font(manager.findfont(font)).get_char_index
    return index


def colors(levels: np.ndarray, ramp: Ramp) -> np.ndarray:
    """The colours `[..., 3]`, 0 to 255, of levels of the scale on paper: white for 0, grey for NaN, which is masked."""
    name = "about 0, paper" if ramp.diverging else "paper"
    table = np.array([*(color_at(at, name, "truecolor").get_truecolor() for at in range(256)), _MASKED], np.uint8)
    shown: np.ndarray = table[np.where(np.isnan(levels), 256, np.rint(np.nan_to_num(levels) * 255)).astype(int)]
    return shown


def ink_on(color: np.ndarray) -> str:
    """Black or white, whichever can be read on a colour `[3]`, 0 to 255."""
    return "black" if is_light(color.tolist()) else "white"
