"""The keys of the pane that the cursor is in, drawn from the table of commands."""

from attn_cli.explore.commands import COMMANDS, Command
from attn_cli.explore.pane_table import pane_named
from attn_cli.explore.panes.lines import BOLD, DIM, Line, line
from attn_cli.explore.regions import Region
from attn_cli.explore.scene import Scene

_KEYS = 14  # columns of the keys
_TWO = 110  # columns from which two commands share a line


def draw_help(scene: Scene, pane: str, region: Region, first: int) -> list[Line]:
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
    """The footer: as many hints on keys as fit, always with the key that lists all.

    reads  whether there is a model that can read another text
    """
    last = "? keys"
    shown: list[str] = []
    used = len(last)
    writes = scene.recording.prompt.generated is not None
    for name in pane_named(pane).hints:
        each = next(command for command in COMMANDS if command.name == name)
        if (name == "step-before" and not writes) or (name in ("text", "writers") and not reads):
            continue
        hint = f"{each.shown} {each.hint}"
        if used + len(hint) + 2 > scene.screen.width:
            break
        shown.append(hint)
        used += len(hint) + 2
    return "  ".join([*shown, last])
