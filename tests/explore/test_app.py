"""The explorer under Textual without a terminal: it shows what is drawn, at every size, and writes what has changed."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from unittest import mock

import pytest
from textual.pilot import Pilot

from attn_cli.explore.app import Explorer
from attn_cli.explore.frame import draw
from attn_cli.explore.panes import matrix
from attn_cli.explore.scene import Scene
from attn_cli.explore.session import Session
from attn_cli.recording import RecordedLayer, Recording
from attn_cli.summaries.answers.kinds import recorded_kinds
from attn_cli.summaries.standing_out import standing_out
from attn_cli.views.drawing.screen import Screen
from tests.explore.recordings import recording
from tests.explore.test_session import session
from tests.program import SHORT

Play = Callable[[Explorer, Pilot[int]], Awaitable[None]]


def play(explorer: Session, size: tuple[int, int], script: Play) -> Explorer:
    async def run() -> Explorer:
        app = Explorer(explorer)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await script(app, pilot)
        return app

    return asyncio.run(run())


def shown(app: Explorer) -> list[str]:
    return ["".join(part.text for part in strip) for strip in app.screen._compositor.render_strips()]


def drawn(app: Explorer) -> list[str]:
    return ["".join(part.text for part in line) for line in draw(app.session)]


@pytest.mark.parametrize("size", [(80, 24), (40, 12), (200, 60)], ids=str)
def test_the_screen_is_what_is_drawn(size: tuple[int, int]) -> None:
    seen = []

    async def script(app: Explorer, pilot: Pilot[int]) -> None:
        for key in (
            "right",
            "down",
            "t",
            "enter",
            "plus",
            "up",
            "left",
            "enter",
            "v",
            "enter",
            "question_mark",
            "escape",
        ):
            await pilot.press(key)
            await pilot.pause()
            assert shown(app) == drawn(app), key
            seen.append(app.session.view.pane)
        await pilot.resize_terminal(60, 20)
        await pilot.pause()
        assert shown(app) == drawn(app)
        assert len(shown(app)) == 20

    play(session(size=size), size, script)
    assert {"heads", "matrix", "text", "cell"} == set(seen)


def test_the_mouse_puts_the_cursor_and_goes_deeper() -> None:
    async def script(app: Explorer, pilot: Pilot[int]) -> None:
        app.CLICK_CHAIN_TIME_THRESHOLD = SHORT  # type: ignore[misc]
        await pilot.click(offset=(8 + 7, 3 + 2))
        assert (app.session.view.at, app.session.view.head) == (1, 2)
        await pilot.click(offset=(8 + 7, 3 + 2), times=2)
        assert app.session.view.pane == "matrix"
        window = app.session.scene.window(app.session.view)
        await pilot.click(offset=(3, 2 + 9))
        assert app.session.view.key // window.form.keys == 3

    play(session(), (80, 24), script)


def test_another_text_is_read_beside_the_screen_and_escape_ends_it() -> None:
    started, go = asyncio.Event(), asyncio.Event()
    texts: list[str] = []

    def read(text: str, step: Callable[[], None]) -> Recording:
        texts.append(text)
        step()
        loop.call_soon_threadsafe(started.set)
        if text == "slow":
            asyncio.run_coroutine_threadsafe(go.wait(), loop).result(SHORT)
        step()
        return recording(n=20, seed=3)

    async def until(app: Explorer, pilot: Pilot[int]) -> None:
        async with asyncio.timeout(SHORT):
            while app.session.task:
                await pilot.pause(0.01)

    async def script(app: Explorer, pilot: Pilot[int]) -> None:
        nonlocal loop
        loop = asyncio.get_running_loop()
        app.session.outside = replace(app.session.outside, read=read)
        await pilot.press("2")
        await type_line(pilot, ":text slow")
        await started.wait()
        await pilot.press("escape")
        go.set()
        await until(app, pilot)
        assert "ended" in app.session.message
        assert len(app.session.scene.recording.prompt.tokens) == 40
        await type_line(pilot, ":text quick")
        await until(app, pilot)
        await pilot.pause()
        assert len(app.session.scene.recording.prompt.tokens) == 20
        assert app.session.view.query == 19
        assert "attn matrix quick" in app.session.attn_line

    async def type_line(pilot: Pilot[int], line: str) -> None:
        await pilot.press(*("colon" if c == ":" else "space" if c == " " else c for c in line), "enter")

    loop = None
    explorer = session()
    play(explorer, (80, 24), script)
    assert texts == ["slow", "quick"]


def test_a_layer_that_memory_did_not_keep_is_read_again() -> None:
    whole = recording()
    layers = tuple(replace(layer, q=None, k=None) for layer in whole.layers)
    asked: list[int] = []

    def read_layer(of: Recording, at: int, step: Callable[[], None]) -> RecordedLayer:
        asked.append(at)
        step()
        return whole.layers[at]

    async def script(app: Explorer, pilot: Pilot[int]) -> None:
        app.session.outside = replace(app.session.outside, read_layer=read_layer)
        for key, at in (("2", 0), ("right_curly_bracket", 1), ("3", 1), ("left_curly_bracket", 0)):
            await pilot.press(key)
            async with asyncio.timeout(SHORT):
                while app.session.task:
                    await pilot.pause(0.01)
            await pilot.pause()
            seen = app.session.scene.recording.layers
            assert [layer.is_kept for layer in seen] == [place == at for place in range(3)]
            assert shown(app) == drawn(app)
            assert not any("numbers alone" in line for line in shown(app))

    play(session(Recording(whole.about, whole.prompt, layers)), (80, 24), script)
    assert asked == [0, 1, 0]


def test_a_failure_in_a_pane_is_kept_for_the_caller() -> None:
    async def script(app: Explorer, pilot: Pilot[int]) -> None:
        with mock.patch.object(matrix, "draw", mock.Mock(side_effect=ZeroDivisionError("planted"))):
            await pilot.press("enter")

    app = Explorer(session())

    async def run() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            await script(app, pilot)

    asyncio.run(run())
    assert app.return_value == 70
    assert isinstance(app.failure, ZeroDivisionError)


def test_heads_of_a_long_text_are_judged_beside_the_first_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attn_cli.explore.scene._JUDGED_CELLS", 0)  # every text is a long one
    scene = Scene(recording(n=30), Screen(80, "truecolor", height=24))
    made = Session(scene, session().outside, scene.opening)
    outs = standing_out(recorded_kinds(recording(n=30)))
    assert outs and not scene.is_judged

    async def script(app: Explorer, pilot: Pilot[int]) -> None:
        async with asyncio.timeout(SHORT):
            while not (scene.is_judged and (app.session.view.at, app.session.view.head) == (outs[0].call, outs[0].at)):
                await pilot.pause()
        assert any(f"{len(outs)} of 12 stand out" in line for line in drawn(app))

    play(made, (80, 24), script)
