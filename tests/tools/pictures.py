"""python -m tests.tools.pictures [front] [explore] [page]: draws pictures of README and guide anew, of real screens."""

import io
import sys
from base64 import b64decode
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

import pytest
from PIL import Image
from rich.console import Console, RenderableType
from rich.segment import Segments
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from attn_cli import open_source
from attn_cli.explore.answer import opening
from attn_cli.recording import Recording
from attn_cli.summaries.reducers.record import record as record_told
from attn_cli.views.webpage.build import page_html
from tests.browser import Browser
from tests.conftest import GOLDEN
from tests.explore.playing import explorer, played, strips
from tests.program import attn
from tests.real_models import SMOL

MARY = "When Mary and John went to the store, John gave a drink to Mary and the book to"
COLORS = [(0, 0, 0), (178, 34, 34), (0, 110, 60), (150, 90, 0)]
COLORS += [(20, 80, 170), (130, 40, 130), (0, 110, 120), (90, 90, 90)]
THEME = TerminalTheme((255, 255, 255), (31, 35, 40), COLORS)
COLUMN, ROW = 12.2, 24.4  # the size of a cell in Rich's images
FRAME = """<svg viewBox="0 0 {width:.0f} {height:.0f}" xmlns="http://www.w3.org/2000/svg">
<title>{title}</title>
<style>
.{{unique_id}}-matrix {{{{ font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {{char_height}}px; line-height: {{line_height}}px; }}}}
{{styles}}
</style><defs>{{lines}}</defs>
<rect x="1" y="1" width="{inner_width:.0f}" height="{inner_height:.0f}" rx="8" fill="#ffffff" stroke="#d1d9e0"/>
<g transform="translate(14, 12)">{{backgrounds}}<g class="{{unique_id}}-matrix">{{matrix}}</g></g>
</svg>
"""


def front() -> bytes:
    """The command of the first page and what it shows, up to the list of tokens."""
    text, columns = MARY, 116
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        Path(folder, "smollm2.gguf").symlink_to(SMOL)
        patch.chdir(folder)
        run = attn("inspect", text, "-m", "smollm2.gguf", terminal=True,
                   env={"COLUMNS": str(columns), "COLORTERM": "truecolor"})  # fmt: skip
    assert run.code == 0, run.errors
    printed = run.text.partition("\n\ntokens ")[0]
    command = Text(f'$ attn inspect "{text}" -m smollm2.gguf', Style(bold=True))
    return _svg([command, *Text.from_ansi(printed).split("\n"), ""], f"attn: {text}", columns)


def explore() -> bytes:
    """The explorer as it opens on a text, with the keys in the text pane."""
    app = explorer(_of_smollm(), size=(140, 40))
    app.view = app.scene.settled(opening(app.scene))
    lines = [Segments(line) for line in strips(played(app, "3"))]
    return _svg(lines, "attn explore: what comes next, all heads, one head's matrix, and the text", 140)


def page() -> bytes:
    """The page as it opens on a text."""
    html, browser = page_html(_of_smollm()), Browser()
    try:
        browser.resize(1280, 860)
        browser.prefer("light")
        with TemporaryDirectory() as name:
            browser.open(html, Path(name))
        picture = Image.open(io.BytesIO(b64decode(browser.command("Page.captureScreenshot")["data"])))
        file = io.BytesIO()
        picture.convert("RGB").quantize(160).save(file, "PNG", optimize=True)  # enough colours for text and a ramp
        return file.getvalue()
    finally:
        browser.driver.quit()


def lines_of(svg: str) -> str:
    lines: dict[float, str] = {}
    for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        y = float(element.attrib["y"])
        lines[y] = lines.get(y, "") + (element.text or "")
    return "".join(f"{lines[y].rstrip()}\n".replace("\xa0", " ") for y in sorted(lines))


def _of_smollm() -> Recording:
    recording = record_told(open_source(str(SMOL), predicts=True), MARY, tells=True)
    return replace(recording, about={**recording.about, "model": "smollm2.gguf"})


def _svg(lines: Sequence[RenderableType], title: str, columns: int) -> bytes:
    """Lines of a terminal as a picture that brings no font and asks no network."""
    console = Console(
        file=io.StringIO(), record=True, width=columns, force_terminal=True, color_system="truecolor",
        legacy_windows=False,
    )  # fmt: skip
    for line in lines:
        console.print(line, end="")
        console.print()
    width, height = 28 + columns * COLUMN, 24 + len(lines) * ROW
    frame = FRAME.format(title=title, width=width, height=height, inner_width=width - 2, inner_height=height - 2)
    return console.export_svg(theme=THEME, code_format=frame, unique_id="attn").encode()


PICTURES: dict[str, Callable[[], bytes]] = {
    "front-light.svg": front,
    "explore-light.svg": explore,
    "page-light.png": page,
}


def main() -> None:
    """Draw the pictures that the command line names, all without names."""
    for name, made in PICTURES.items():
        if len(sys.argv) == 1 or made.__name__ in sys.argv[1:]:
            folder = GOLDEN if name.endswith(".svg") else Path(__file__).parent  # which no test compares
            (folder / name).write_bytes(made())


if __name__ == "__main__":
    main()
