"""The explorer under Textual without a terminal: keys go in, and its lines are read."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from textual.pilot import Pilot, WaitForScreenTimeout
from textual.strip import Strip

from attn_cli.errors import AttnError
from attn_cli.explore.app import Explorer, Outside
from attn_cli.explore.command_line import LineOrigin
from attn_cli.explore.commands import command_of
from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import Viewpoint
from attn_cli.recording import Recording
from attn_cli.views.drawing.screen import Screen
from tests.explore.recordings import recording
from tests.program import SHORT

Script = Callable[[Explorer, Pilot[int]], Awaitable[None]]
NAMES = {"/": "slash", "-": "minus", "?": "question_mark"}
NAMES |= {" ": "space", "\r": "enter", "\x1b": "escape", "\x15": "ctrl+u"}


def scene_of(of: Recording | None = None, size: tuple[int, int] = (80, 24), depth: str = "truecolor") -> Scene:
    scene = Scene(of or recording(), Screen(size[0], depth, False, size[1]))
    scene.judge()
    return scene


def explorer(of: Recording | None = None, size: tuple[int, int] = (80, 24), depth: str = "truecolor") -> Explorer:
    outside = Outside(LineOrigin((), ("-m", "run.attn")), lambda recording, words: None)
    app = Explorer(scene_of(of, size, depth), outside)
    app.view = app.scene.settled(Viewpoint(query=len(app.scene.recording.layers[0].queries) - 1))
    return app


def pressed(scene: Scene, view: Viewpoint, keys: Sequence[str]) -> Viewpoint:
    """The viewpoint after keys; one that has no command in the pane, or is refused there, does nothing."""
    for key in keys:
        command = command_of(key, view.pane)
        if command is not None and command.run is not None:
            with suppress(AttnError):
                view = scene.settled(command.run(scene, view))
    return view


def played(app: Explorer, keys: str | Script, size: tuple[int, int] | None = None) -> Explorer:
    """The explorer after keys, or after a script of its own; `played.lines` are its lines then."""

    async def run() -> None:
        screen = app.scene.screen
        async with asyncio.timeout(SHORT), app.run_test(size=size or (screen.width, screen.height or 24)) as pilot:
            await pilot.pause()
            if isinstance(keys, str):
                for key in keys:
                    await pilot.press(NAMES.get(key, key))
                await pilot.pause()
            else:
                await keys(app, pilot)
            app.last = strips(app)  # type: ignore[attr-defined]

    with suppress(WaitForScreenTimeout):  # it has ended
        asyncio.run(run())
    if app.failure is not None:
        raise app.failure
    return app


def strips(app: Explorer) -> list[Strip]:
    """The lines of the screen, those before the end where it has ended."""
    last: list[Strip] = app.screen._compositor.render_strips() if app.is_running else app.last  # type: ignore[attr-defined]
    return last


def lines_of(app: Explorer) -> list[str]:
    """The lines of the screen as text."""
    return ["".join(part.text for part in strip) for strip in strips(app)]
