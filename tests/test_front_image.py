"""The image on the front page is a real screen, once for light and once for dark pages, and it is current.

`python -m tests.test_front_image` draws both anew.
"""

import io
import re
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from tests.conftest import GOLDEN
from tests.program import attn
from tests.real_models import SMOL
from tests.test_guide import README, compare

pytestmark = pytest.mark.usefixtures("loads_once")

TEXT = "When Mary and John went to the store, John gave a drink to Mary and the book to"
ARGUMENTS = ["inspect", TEXT, "-m", "smollm2.gguf"]
LINE = f'$ attn inspect "{TEXT}" -m smollm2.gguf'
WIDTH = 116
ANSI = [
    (0, 0, 0),
    (178, 34, 34),
    (0, 110, 60),
    (150, 90, 0),
    (20, 80, 170),
    (130, 40, 130),
    (0, 110, 120),
    (90, 90, 90),
]
THEMES = {
    "light": TerminalTheme((255, 255, 255), (31, 35, 40), ANSI),
    "dark": TerminalTheme((13, 17, 23), (230, 237, 243), ANSI),
}
COLUMN, ROW = 12.2, 24.4  # the size of a cell in Rich's images
FRAME = """<svg viewBox="0 0 {width:.0f} {height:.0f}" xmlns="http://www.w3.org/2000/svg">
<title>{title}</title>
<style>
.{{unique_id}}-matrix {{{{ font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {{char_height}}px; line-height: {{line_height}}px; }}}}
{{styles}}
</style>
<defs>{{lines}}</defs>
<rect x="1" y="1" width="{inner_width:.0f}" height="{inner_height:.0f}" rx="8" fill="{fill}" stroke="{stroke}"/>
<g transform="translate(14, 12)">{{backgrounds}}<g class="{{unique_id}}-matrix">{{matrix}}</g></g>
</svg>
"""


def file_of(theme: str) -> Path:
    return GOLDEN / f"front-{theme}.svg"


def screen(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The command's output on a terminal of 16 million colours, with escape codes, up to the list of tokens."""
    (folder / "smollm2.gguf").symlink_to(SMOL)
    monkeypatch.chdir(folder)
    run = attn(*ARGUMENTS, terminal=True, env={"COLUMNS": str(WIDTH), "COLORTERM": "truecolor"})
    assert run.code == 0, run.errors
    return run.text.partition("\n\ntokens ")[0] + "\n"


def drawn(printed: str, theme: str) -> str:
    """The command and what it printed as an image that brings no font and asks no network."""
    console = Console(
        file=io.StringIO(),
        record=True,
        width=WIDTH,
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
    )
    console.print(Text(LINE, Style(bold=True)))
    console.print(Text.from_ansi(printed))
    fill, stroke = {"light": ("#ffffff", "#d1d9e0"), "dark": ("#0d1117", "#3d444d")}[theme]
    width, height = 28 + WIDTH * COLUMN, 24 + (1 + printed.count("\n")) * ROW
    frame = FRAME.format(
        title=f"attn: {TEXT}", fill=fill, stroke=stroke,
        width=width, height=height, inner_width=width - 2, inner_height=height - 2,
    )  # fmt: skip
    return console.export_svg(theme=THEMES[theme], code_format=frame, unique_id="attn")


def lines_of(svg: str) -> str:
    """The text of an image, line by line."""
    lines: dict[float, str] = {}
    for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        y = float(element.attrib["y"])
        lines[y] = lines.get(y, "") + (element.text or "")
    return "".join(f"{lines[y].rstrip()}\n".replace("\xa0", " ") for y in sorted(lines))


def colours_of(svg: str) -> dict[tuple[int, int], np.ndarray]:
    """The background, as red, green and blue from 0 to 255, of every cell (row, column) that has one."""
    cells = {}
    for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}rect"):
        if "shape-rendering" not in element.attrib:  # the frame
            continue
        fill = element.attrib["fill"]
        row = round(float(element.attrib["y"]) / ROW)
        start, width = (round(float(element.attrib[name]) / COLUMN) for name in ("x", "width"))
        rgb = np.array([int(fill[at : at + 2], 16) for at in (1, 3, 5)])
        cells |= {(row, column): rgb for column in range(start, start + width)}
    return cells


@pytest.mark.parametrize("theme", THEMES)
def test_the_image_is_what_the_command_shows(theme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, current = file_of(theme).read_text("utf-8"), drawn(screen(tmp_path, monkeypatch), theme)
    problem = compare(lines_of(kept), lines_of(current))
    assert not problem, f"python -m tests.test_front_image draws it anew\n{problem}"
    before, after = colours_of(kept), colours_of(current)
    assert len(before) > 18 * 18 * 3 / 2  # cells of three columns, those that a causal mask and the sink leave
    assert before.keys() == after.keys()
    assert all(abs(before[cell] - after[cell]).max() <= 8 for cell in before)  # weights differ by 1e-3 at most


def test_the_readme_shows_it_in_both_themes() -> None:
    picture = re.search(r"<picture>.*?</picture>", README.read_text("utf-8"), re.DOTALL)
    assert picture
    for theme in THEMES:
        assert f"tests/golden/front-{theme}.svg" in picture[0]
    assert 'media="(prefers-color-scheme: dark)"' in picture[0]


def main() -> None:
    """Draw both images."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as monkeypatch:
        printed = screen(Path(folder), monkeypatch)
    for theme in THEMES:
        file_of(theme).write_text(drawn(printed, theme), "utf-8")


if __name__ == "__main__":
    main()
