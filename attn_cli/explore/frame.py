"""A whole screen of the explorer as lines, and what a place of it is."""

from dataclasses import replace

from rich.cells import cell_len, chop_cells
from rich.segment import Segment

from attn_cli.errors import AttnError
from attn_cli.explore.commands import COMMANDS, Command, meaning_of
from attn_cli.explore.line_entry import LineEntry
from attn_cli.explore.pane_table import pane_named
from attn_cli.explore.panes import drawing_of
from attn_cli.explore.panes.legend import with_key, with_panes
from attn_cli.explore.panes.lines import BOLD, DIM, PLAIN, REVERSED, Line, line, padded
from attn_cli.explore.regions import Region
from attn_cli.explore.scene import Scene
from attn_cli.explore.session import Session
from attn_cli.explore.viewpoint import Viewpoint
from attn_cli.text import visible
from attn_cli.views.drawing.ascii import marks_in_ascii
from attn_cli.views.drawing.cells import fit

_KEYS = 14  # columns of the keys
_TWO = 110  # columns from which two commands share a line


def draw_help(pane: str, region: Region, first: int) -> list[Line]:
    """The help on the keys of a pane, from line `first` on; from an earlier one where that leaves the pane unfilled."""
    width, height = region.width, region.height
    entries = [_entry(each) for each in COMMANDS if pane in each.panes and each.meaning]
    if width >= _TWO:
        half, wide = -(-len(entries) // 2), width // 2 - 2
        left, right = entries[:half], [*entries[half:], ""]
        entries = [f"{a[:wide]:{wide}}  {b}" for a, b in zip(left, right, strict=False)]
    first = min(first, max(len(entries) - (height - 2), 0))
    seen = entries[first : first + height - 2]
    more = f"lines {first + 1} to {first + len(seen)} of {len(entries)} · " if len(seen) < len(entries) else ""
    return [
        line(f"keys of {pane_named(pane).heading}", width, BOLD),
        *(line(entry, width) for entry in seen),
        *([[]] * (height - 2 - len(seen))),
        line(f"{more}words are typed after : · ? closes", width, DIM),
    ]


def _entry(command: Command) -> str:
    if not command.keys:
        return f"  {':' + command.name + ' N':{_KEYS}}{command.meaning}"
    word = f"  :{command.name}" if command.choices or command.flag else ""
    return f"  {command.shown:{_KEYS}}{command.meaning}{word}"


def hints(scene: Scene, pane: str, *, reads: bool) -> str:
    """The footer: as many hints on keys as fit, always with the key that lists all."""
    last = "? keys"
    shown: list[str] = []
    used = len(last)
    writes = scene.recording.prompt.generated is not None
    for name in pane_named(pane).hints:
        each = next(command for command in COMMANDS if command.name == name)
        if (name == "step-before" and not writes) or (name == "text" and not reads):
            continue
        hint = f"{each.shown} {each.hint}"
        if used + len(hint) + 2 > scene.screen.width:
            break
        shown.append(hint)
        used += len(hint) + 2
    return "  ".join([*shown, last])


def draw(session: Session) -> list[Line]:
    """All lines of the explorer's screen, each as wide as it."""
    scene, view = session.scene, session.view
    width, lines = scene.screen.width, scene.lines
    if session.help_line is not None:
        help_lines = draw_help(view.pane, Region(0, 0, width, lines), session.help_line)
        body = [padded(each, width) for each in help_lines]
    else:
        body = _panes(scene, view)
    last = [padded(each, width) for each in _last_lines(session)]
    drawn = [*body[: len(body) + 1 - len(last)], *last]
    if scene.screen.ascii_only:
        drawn = [[Segment(marks_in_ascii(part.text), *part[1:]) for part in each] for each in drawn]
    return drawn


def seen(session: Session) -> list[Line]:
    """The lines of the panes alone, without the lines below them, for a file."""
    return _panes(session.scene, session.view)


def _panes(scene: Scene, view: Viewpoint) -> list[Line]:
    """All panes that are seen, side by side where the screen is wide; lines as wide as the screen."""
    regions = scene.regions(view)
    rows: list[Line] = [[] for _ in range(scene.lines)]
    ends = [0] * scene.lines
    for pane, region in sorted(regions.items(), key=lambda each: each[1].x):
        try:
            drawn = drawing_of(pane).draw(scene, view, region)
        except AttnError as error:  # a layer of which numbers and thumbnails alone are kept
            drawn = [line(error.message, region.width), line(error.hint, region.width), *([[]] * (region.height - 2))]
        head = (
            with_panes(drawn[0], pane, region.width)
            if len(regions) == 1
            else with_key(drawn[0], pane, region.width, is_seen=pane == view.pane)
        )
        drawn = [head, *drawn[1:]]
        if pane != view.pane:  # the reversed line is that of the pane with the keys
            drawn = [*drawn[:-1], [Segment(part.text, DIM) for part in drawn[-1]]]
        for y, each in enumerate(drawn[: region.height], region.y):
            gap = region.x - ends[y]
            rows[y] += [*([Segment(" " * gap, PLAIN)] if gap else []), *padded(each, region.width)]
            ends[y] = region.x + region.width
    return rows


def _last_lines(session: Session) -> list[Line]:
    """The line that is typed, else what was said, over lines above where it is long; else what runs, else hints."""
    scene, width = session.scene, session.scene.screen.width
    if session.entry is not None:
        entry = session.entry
        typed = _entry_line(entry.prompt, visible(entry.text), visible(entry.text[: entry.place]), width)
        return [*_choices(entry, width), typed]
    if session.message:
        pieces = chop_cells(visible(session.message), width)[: scene.lines - 1]
        return [[Segment(piece, REVERSED)] for piece in pieces]
    if session.task:
        return [line(f"{visible(session.task)} · esc ends it", width, REVERSED)]
    return [line(hints(scene, session.view.pane, reads=session.outside.read is not None), width, DIM)]


def _entry_line(prompt: str, text: str, before: str, width: int) -> Line:
    start, room = len(before), width - len(prompt) - 2
    while start and (room := room - cell_len(before[start - 1])) >= 0:
        start -= 1
    after = text[len(before) :]
    cursor = after[:1] or " "
    rest = fit(after[1:], max(width - len(prompt) - cell_len(before[start:]) - cell_len(cursor), 0)).rstrip()
    return [Segment(prompt + before[start:], PLAIN), Segment(cursor, REVERSED), Segment(rest, PLAIN)]


def _choices(entry: LineEntry, width: int) -> list[Line]:
    """A line of what the words may go on as, without what is typed of them; of one command what it does."""
    choices = entry.choices
    if not choices:
        return []
    start = len(entry.text.partition(" ")[0]) + 1 if " " in choices[0] else 0
    segments: Line = []
    used = 0
    first = list(choices).index(entry.text) if entry.text in choices else 0
    for choice in choices[max(first - 2, 0) :]:
        name = choice[start:]
        if used + len(name) + 4 > width:
            segments.append(Segment("  …", DIM))
            break
        segments += [Segment("  ", DIM)] if segments else []
        segments.append(Segment(name, BOLD if choice == entry.text else DIM))
        used += len(name) + 2
    meaning = meaning_of(choices[0]) if len(choices) == 1 else ""
    return [[*segments, *line(f"  {meaning}", max(width - used, 1), DIM)]] if meaning else [segments]


def pointed(session: Session, x: int, y: int) -> Viewpoint | None:
    """The viewpoint (what is shown, and the cursor) that a click at column x and line y of the screen means, from 0."""
    scene, view = session.scene, session.view
    for pane, region in scene.regions(view).items():
        if region.x <= x < region.x + region.width and region.y <= y < region.y + region.height:
            return drawing_of(pane).pointed(scene, replace(view, pane=pane), region, x - region.x, y - region.y)
    return None
