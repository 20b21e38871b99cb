"""The explorer under Textual: lines that are typed, the mouse, passes of the model beside the screen, failures."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from textual import events
from textual.pilot import Pilot

from attn_cli.explore.app import Explorer
from attn_cli.explore.panes import matrix
from attn_cli.explore.viewpoint import Viewpoint
from attn_cli.recording import Recording
from tests.explore.playing import NAMES, explorer, lines_of, played, strips
from tests.explore.recordings import WIDE, prompt_of, recording, recording_of
from tests.program import SHORT


async def typed(pilot: Pilot[int], line: str) -> None:
    await pilot.press(*(NAMES.get(key, key) for key in line), "enter")
    await pilot.pause()


async def until(app: Explorer, pilot: Pilot[int], is_done: Callable[[], bool]) -> None:
    async with asyncio.timeout(SHORT):
        while not is_done():
            await pilot.pause(0.01)
    await pilot.pause()


@pytest.mark.parametrize("size", [(80, 24), (40, 12), (200, 60)], ids=str)
def test_the_screen_is_whole_after_any_key_and_another_size(size: tuple[int, int]) -> None:
    seen = set()

    async def script(app: Explorer, pilot: Pilot[int]) -> None:
        for key in (
            "right",
            "down",
            "enter",
            "plus",
            "up",
            "left",
            "enter",
            "v",
            "enter",
            "escape",
            "1",
            "j",
            "3",
            "h",
        ):
            await pilot.press(key)
            await pilot.pause()
            before = lines_of(app)
            assert (len(before), {sum(part.cell_length for part in strip) for strip in strips(app)}) == (
                size[1],
                {size[0]},
            )
            app.screen.refresh(repaint=True, layout=True)
            await pilot.pause()
            assert lines_of(app) == before, key
            seen.add(app.view.pane)
        await pilot.resize_terminal(60, 20)
        await pilot.pause()
        assert {strip.cell_length for strip in strips(app)} == {60} and len(lines_of(app)) == 20

        for tiny in ((1, 1), (2, 2), (3, 1), (5, 3), (10, 6)):
            await pilot.resize_terminal(*tiny)
            await pilot.press(*"1j2j3j4j")

    played(explorer(recording_of(prompt_of(40, words=WIDE)), size), script)
    assert seen == {"heads", "matrix", "text", "cell"}


def test_words_are_typed_refused_and_undone() -> None:
    async def script(app: Explorer, pilot: Pilot[int]) -> None:
        await typed(pilot, "/2.1")
        assert (app.view.at, app.view.head) == (2, 1)
        before = app.view
        await typed(pilot, "/7")
        assert "no head '7'" in app.message and "no head '7'" in lines_of(app)[-1] and app.view == before
        await pilot.press("x")
        assert app.message == "x is for the matrix (2)"
        await typed(pilot, "/1.0")
        seen = []
        for keys in ("jjj", "[", "3", "/bank\r", "s", "1"):  # steps that follow one another are one
            seen.append(app.view)
            for key in keys:
                await pilot.press(NAMES.get(key, key))
        for view in reversed(seen):
            await pilot.press("U")
            assert app.view == view

    played(explorer(), script)


def test_the_palette_lists_and_runs_the_commands_of_the_pane() -> None:
    async def script(app: Explorer, pilot: Pilot[int]) -> None:
        await pilot.press("question_mark")
        await until(app, pilot, lambda: any("deeper: heads" in line for line in lines_of(app)))
        await pilot.press(*"colour heads")
        await until(app, pilot, lambda: any("colour heads by another" in line for line in lines_of(app)))
        await pilot.press("enter")
        await until(app, pilot, lambda: app.view.statistic != "kinds")

    played(explorer(), script)


def test_the_mouse_puts_the_cursor_and_goes_deeper() -> None:
    async def script(app: Explorer, pilot: Pilot[int]) -> None:
        app.CLICK_CHAIN_TIME_THRESHOLD = SHORT  # type: ignore[misc]
        await pilot.click("#heads", offset=(8 + 7, 2 + 2))
        assert (app.view.at, app.view.head) == (1, 2)
        await pilot.click("#heads", offset=(8 + 7, 2 + 2), times=2)
        assert app.view.pane == "matrix"
        await pilot.click("#matrix", offset=(3, 2 + 9))
        assert app.view.key // app.scene.window(app.view).form.keys == 3
        app.screen.post_message(events.MouseScrollUp(None, 1, 1, 0, -1, 0, False, False, False))
        query = app.view.query
        await pilot.pause()
        assert app.view.query < query

    played(explorer(), script)


def test_another_text_is_read_beside_the_screen_and_escape_ends_it() -> None:
    started, go, texts = asyncio.Event(), asyncio.Event(), list[str]()

    async def script(app: Explorer, pilot: Pilot[int]) -> None:
        loop = asyncio.get_running_loop()

        def read(text: str, step: Callable[[], None]) -> Recording:
            texts.append(text)
            step()
            loop.call_soon_threadsafe(started.set)
            if text == "slow":
                asyncio.run_coroutine_threadsafe(go.wait(), loop).result(SHORT)
            step()
            return recording(n=20, seed=3)

        app.outside = replace(app.outside, read=read)
        await typed(pilot, "2e\x15slow")
        await started.wait()
        await pilot.press("e")
        assert "reading already" in app.message
        await pilot.press("escape")
        go.set()
        await until(app, pilot, lambda: not app.running)
        assert "ended" in app.message and len(app.scene.recording.prompt.tokens) == 40
        await pilot.press("e", "ctrl+u")
        await typed(pilot, "quick")  # the name of the command is no part of the line
        await until(app, pilot, lambda: not app.running)
        assert (len(app.scene.recording.prompt.tokens), app.view.query) == (20, 19)
        await pilot.press("y")
        assert "attn matrix quick" in app.message
        await pilot.press("e")
        app.screen.focused.post_message(events.Paste(" more\nlines\x1b\n"))  # type: ignore[union-attr]
        await pilot.pause()
        await typed(pilot, "")
        await until(app, pilot, lambda: not app.running)

    played(explorer(), script)
    assert texts == ["slow", "quick", f"{recording(n=20, seed=3).prompt.text} more\nlines"]


def test_without_a_model_no_text_is_read() -> None:
    assert "a recording has no model" in played(explorer(), "e").message


def test_a_failure_in_a_pane_is_kept_for_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "draw", lambda *given: 1 / 0)
    app = explorer()
    with pytest.raises(ZeroDivisionError):
        played(app, "2")
    assert app.return_value == 70


def test_heads_of_a_long_text_are_judged_and_drawn_beside_the_first_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attn_cli.explore.scene._JUDGED_CELLS", 0)  # every text is a long one
    monkeypatch.setattr("attn_cli.explore.pictures.AT_ONCE", 0)
    app = explorer(recording(n=30))
    app.scene = replace(app.scene, _judged={})
    app.view = Viewpoint()

    async def script(app: Explorer, pilot: Pilot[int]) -> None:
        await until(app, pilot, lambda: bool(app.scene.outs))
        assert (app.view.at, app.view.head) == (app.scene.outs[0].call, app.scene.outs[0].at)
        assert f"{len(app.scene.outs)} stand out" in lines_of(app)[1]
        await pilot.press("2")
        await until(app, pilot, lambda: "computing" not in lines_of(app)[1])
        assert app.scene.picture(app.view).is_computed

    played(app, script)


def test_a_file_that_exists_is_replaced_after_enter_alone(tmp_path: Path) -> None:
    written = list[list[str]]()

    async def script(app: Explorer, pilot: Pilot[int]) -> None:
        app.outside = replace(app.outside, write=lambda of, words: written.append(words))
        (tmp_path / "a.csv").write_text("mine")
        await typed(pilot, f"2w{tmp_path}/a.csv")
        assert "exists, enter replaces it" in lines_of(app)[-1] and not written
        await pilot.press("enter")
        await typed(pilot, f"w{tmp_path}/b.csv")

    played(explorer(size=(200, 24)), script)
    assert [words[-1] for words in written] == ["--force", f"{tmp_path}/b.csv"]
