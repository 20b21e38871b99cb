"""The explorer under Textual: lines that are typed, the mouse, passes of the model beside the screen, failures."""

import asyncio
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from textual import events
from textual.pilot import Pilot

from attn_cli.cli.explore import _write
from attn_cli.explore.app import Explorer
from attn_cli.explore.command_line import LineOrigin, command_words
from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import Viewpoint
from attn_cli.recording import Recording
from attn_cli.sources import open_source
from attn_cli.summaries.reducers.record import record
from attn_cli.views.invocation import command_line
from tests.explore.playing import NAMES, explorer, lines_of, played, strips
from tests.explore.recordings import WIDE, prompt_of, recording, recording_of
from tests.explore.terminal import Terminal
from tests.program import SHORT, attn, refused


async def typed(pilot: Pilot[int], line: str) -> None:
    await pilot.press(*(NAMES.get(key, key) for key in line), "enter")
    await pilot.pause()


async def until(app: Explorer, pilot: Pilot[int], is_done: Callable[[], bool]) -> None:
    async with asyncio.timeout(SHORT):
        while not is_done():
            await pilot.pause(0.01)
    await pilot.pause()


@pytest.mark.parametrize("size", [(80, 24), (40, 12)], ids=str)
def test_the_screen_is_whole_after_any_key_and_another_size(size: tuple[int, int]) -> None:
    seen = set()

    async def script(app: Explorer, pilot: Pilot[int]) -> None:
        for key in ("right", "down", "enter", "plus", "up", "left", "enter", "v", "enter", "escape", *"1j3h"):
            await pilot.press(key)
            await pilot.pause()
            before = lines_of(app)
            widths = {sum(part.cell_length for part in strip) for strip in strips(app)}
            assert (len(before), widths) == (size[1], {size[0]})
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
        app.screen.focused.post_message(events.Paste(" more\rlines\x1b\r\n"))  # type: ignore[union-attr]
        await pilot.pause()
        await typed(pilot, "")
        await until(app, pilot, lambda: not app.running)

    played(explorer(), script)
    assert texts == ["slow", "quick", f"{recording(n=20, seed=3).prompt.text} more\nlines"]


def test_heads_of_a_long_text_are_judged_and_drawn_beside_the_first_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attn_cli.explore.scene._JUDGED_CELLS", 0)  # every text is a long one
    monkeypatch.setattr("attn_cli.explore.pictures.AT_ONCE", 0)
    app = explorer(recording(n=30))
    app.scene = replace(app.scene, _judged=[])
    app.view = Viewpoint()

    async def script(app: Explorer, pilot: Pilot[int]) -> None:
        await until(app, pilot, lambda: bool(app.scene.outs))
        assert (app.view.at, app.view.head) == (app.scene.outs[0].call, app.scene.outs[0].at)
        assert f"{len(app.scene.outs)} standing out" in lines_of(app)[1]
        await pilot.press("2")
        await until(app, pilot, lambda: "computing" not in lines_of(app)[1])
        assert app.scene.picture(app.view).is_computed

    played(app, script)


def test_a_file_that_exists_is_replaced_after_enter_alone(here: Path) -> None:
    written = list[list[str]]()

    async def script(app: Explorer, pilot: Pilot[int]) -> None:
        app.outside = replace(app.outside, write=lambda of, words: written.append(words))
        (here / "a.csv").write_text("mine")
        await typed(pilot, "2wa.csv")
        assert "exists, enter replaces it" in lines_of(app)[-1] and not written
        await pilot.press("enter")
        await typed(pilot, "wb.csv")

    played(explorer(size=(200, 24)), script)
    assert [words[-1] for words in written] == ["--force", "b.csv"]


TEXT = "he sat on the river bank"
MODULES = """
import atexit, sys
atexit.register(lambda: print("MODULES", *sorted(sys.modules)))
sys.argv = ["attn", "explore", {file!r}]
from attn_cli.cli import main
main()
"""


@pytest.fixture
def file(here: Path) -> str:
    path = here / "run.attn"
    record(open_source("toy"), TEXT).save(path)
    return os.fspath(path)


@pytest.fixture
def toys(file: str) -> Explorer:
    made = explorer(Recording.load(file), size=(200, 24))
    made.outside = replace(made.outside, origin=LineOrigin((), ("-m", file)), write=_write)
    return made


@pytest.mark.parametrize("keys", ["", "j3"], ids=repr)
def test_what_is_written_is_what_the_line_gives(keys: str, toys: Explorer) -> None:
    made = played(toys, f"{keys}wseen.npz\r")
    assert made.message == "wrote seen.npz"
    line = command_line(command_words(made.outside.origin, made.scene, made.view))
    run = attn(*shlex.split(line)[1:], "-q", "-o", "told.npz")
    assert run.code == 0, run.errors
    seen, expected = np.load("seen.npz"), np.load("told.npz")
    assert sorted(seen) == sorted(expected)
    for name in seen:
        np.testing.assert_array_equal(seen[name], expected[name])


def test_a_page_a_picture_and_a_recording_are_written(toys: Explorer, here: Path) -> None:
    made = played(toys, "2wa.html\rwa.svg\rwa.attn\rwa.csv\r")
    again = Recording.load("a.attn")
    np.testing.assert_array_equal(again.layers[0].q, made.scene.recording.layers[0].q)
    assert b"<svg" in (here / "a.svg").read_bytes()
    assert TEXT.split()[4].encode() in (here / "a.html").read_bytes()
    assert b"weight" in (here / "a.csv").read_bytes()


@pytest.mark.parametrize("pane", "134")
def test_every_pane_has_a_figure(pane: str, toys: Explorer, here: Path) -> None:
    made = played(toys, f"{pane}wa.svg\r")
    assert made.message == "wrote a.svg" and (here / "a.svg").read_bytes().startswith(b"<svg")


def test_a_recording_opens_without_torch(file: str) -> None:
    with Terminal(command=[sys.executable, "-c", MODULES.format(file=file)]) as terminal:
        terminal.wait("4 heads by entropy · none standing out")
        terminal.press("2")
        terminal.wait("head 0.2 · weights")
        terminal.press("e")
        terminal.wait("a recording has no model")
        terminal.press("q")
        assert terminal.end() == 0
    modules = set(terminal.log.rpartition(b"MODULES")[2].decode().split())
    assert {"textual", "attn_cli.explore.app"} <= modules
    assert not {"torch", "transformers"} & modules


@pytest.fixture
def in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal is there; nothing may be drawn on it."""
    monkeypatch.setattr("attn_cli.cli.explore._is_terminal", lambda: True)
    monkeypatch.setattr("attn_cli.explore.app.run", lambda *given: pytest.fail("it was drawn"))


@pytest.mark.usefixtures("in_a_terminal")
def test_a_recording_keeps_its_story(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told, given = {"5": {"answer": "bank"}}, list[Scene]()
    replace(Recording.load(file), told=told).save(file)
    monkeypatch.setattr("attn_cli.explore.app.run", lambda scene, outside: given.append(scene) or 0)
    assert attn("explore", file, env={"TERM": "xterm"}).code == 0
    assert given[0].recording.told == told


@pytest.mark.usefixtures("in_a_terminal")
def test_wrong_words_are_answered_before_anything_is_drawn(file: str, tmp_path: Path) -> None:
    env = {"TERM": "xterm"}
    refused(attn("explore", file, "-m", "gpt2", env=env), 2, "is a recording, and --model was given")
    refused(attn("explore", "another text", "-m", file, env=env), 2, "reads no other")
    refused(attn("explore", TEXT, "-l", "9", env=env), 2, "there is no attention layer 9")
    bad = tmp_path / "bad.attn"
    bad.write_bytes(b"not a recording")
    assert attn("explore", bad, env=env).code in (2, 3)
