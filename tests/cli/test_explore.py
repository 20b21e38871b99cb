"""attn explore: what is seen is written to files, recordings open without a model, and wrong words are answered."""

import os
import shlex
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from attn_cli.cli.explore import _draw, _write
from attn_cli.explore.app import Explorer
from attn_cli.explore.command_line import LineOrigin, command_words
from attn_cli.explore.scene import Scene
from attn_cli.recording import Recording
from attn_cli.sources import open_source
from attn_cli.summaries.reducers.record import record
from attn_cli.views.shell_words import command_line
from tests.explore.playing import explorer as explorer_of
from tests.explore.playing import played
from tests.explore.terminal import Terminal
from tests.program import attn, refused

TEXT = "he sat on the river bank"
MODULES = """
import atexit, sys
atexit.register(lambda: print("MODULES", *sorted(sys.modules)))
sys.argv = ["attn", "explore", {file!r}]
from attn_cli.cli import main
main()
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "run.attn"
    record(open_source("toy"), TEXT).save(path)
    return os.fspath(path)


@pytest.fixture
def explorer(file: str) -> Explorer:
    made = explorer_of(Recording.load(file), size=(200, 24))
    made.outside = replace(made.outside, origin=LineOrigin((), ("-m", file)), write=_write)
    return made


@pytest.mark.parametrize("keys", ["", "2j", "j3", "34", "3b"], ids=repr)
def test_what_is_written_is_what_the_line_gives(keys: str, explorer: Explorer, tmp_path: Path) -> None:
    written, told = tmp_path / "seen.npz", tmp_path / "told.npz"
    made = played(explorer, f"{keys}:write {written}\r")
    assert made.message == f"wrote {written}"
    line = command_line(command_words(made.outside.origin, made.scene, made.view))
    run = attn(*shlex.split(line)[1:], "-q", "-o", told)
    assert run.code == 0, run.errors
    seen, expected = np.load(written), np.load(told)
    assert sorted(seen) == sorted(expected)
    for name in seen:
        np.testing.assert_array_equal(seen[name], expected[name])


def test_a_page_a_picture_and_a_recording_are_written(explorer: Explorer, tmp_path: Path) -> None:
    names = ("a.html", "a.svg", "a.attn", "a.csv")
    made = played(explorer, "2" + "".join(f":write {tmp_path / name}\r" for name in names))
    again = Recording.load(tmp_path / "a.attn")
    np.testing.assert_array_equal(again.layers[0].q, made.scene.recording.layers[0].q)
    assert b"<svg" in (tmp_path / "a.svg").read_bytes()
    assert TEXT.split()[4].encode() in (tmp_path / "a.html").read_bytes()
    assert b"weight" in (tmp_path / "a.csv").read_bytes()


@pytest.mark.parametrize("light", [False, True])
def test_a_screen_is_written_as_it_is_seen(light: bool, explorer: Explorer, tmp_path: Path) -> None:
    screen = replace(explorer.scene.screen, light=light)
    explorer.scene = replace(explorer.scene, screen=screen)
    explorer.outside = replace(explorer.outside, picture=partial(_draw, screen))
    made = played(explorer, f":write {tmp_path / 'all.svg'}\r")
    assert made.message == f"wrote {tmp_path / 'all.svg'}"
    image = ElementTree.fromstring((tmp_path / "all.svg").read_text("utf-8"))
    rects = list(image.iter("{http://www.w3.org/2000/svg}rect"))
    assert rects[0].get("fill") == ("#ffffff" if light else "#0d1117") and len(rects) > 4
    text = " ".join(" ".join(image.itertext()).split())
    assert "toy:minilm · 4 heads by entropy" in text and "? keys" not in text


@pytest.mark.parametrize("name", ["no-such-folder/a.csv", "a.bank"])
def test_a_file_that_cannot_be_written_is_said(name: str, explorer: Explorer, tmp_path: Path) -> None:
    message = played(explorer, f":write {tmp_path / name}\r").message
    assert message and "wrote" not in message


def test_a_recording_opens_without_torch(file: str) -> None:
    with Terminal(command=[sys.executable, "-c", MODULES.format(file=file)]) as terminal:
        terminal.wait("toy:minilm · 4 heads by entropy (bits) · 6 tokens")
        terminal.press("2")
        terminal.wait("layer 0 head 0 · weights")
        terminal.press(":text a river\r")
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
