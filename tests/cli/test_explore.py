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
from attn_cli.explore.command_line import LineOrigin
from attn_cli.explore.frame import seen
from attn_cli.explore.session import Session
from attn_cli.recording import Recording
from attn_cli.sources import open_source
from attn_cli.summaries.reducers.record import record
from tests.explore.terminal import Terminal
from tests.explore.test_session import session, typed
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
def explorer(file: str) -> Session:
    made = session(Recording.load(file))
    made.outside = replace(made.outside, origin=LineOrigin((), ("-m", file)), write=_write)
    return made


@pytest.mark.parametrize("keys", ["", "2j", "j3", "34", "3b"], ids=repr)
def test_what_is_written_is_what_the_line_gives(keys: str, explorer: Session, tmp_path: Path) -> None:
    for key in keys:
        explorer.press(key, key)
    written, told = tmp_path / "seen.npz", tmp_path / "told.npz"
    typed(explorer, f":write {written}")
    assert explorer.message == f"wrote {written}"
    run = attn(*shlex.split(explorer.attn_line)[1:], "-q", "-o", told)
    assert run.code == 0, run.errors
    seen, expected = np.load(written), np.load(told)
    assert sorted(seen) == sorted(expected)
    for name in seen:
        np.testing.assert_array_equal(seen[name], expected[name])


def test_a_page_a_picture_and_a_recording_are_written(explorer: Session, tmp_path: Path) -> None:
    explorer.press("2")
    for name in ("a.html", "a.svg", "a.attn", "a.csv"):
        typed(explorer, f":write {tmp_path / name}")
        assert explorer.message == f"wrote {tmp_path / name}"
    again = Recording.load(tmp_path / "a.attn")
    np.testing.assert_array_equal(again.layers[0].q, explorer.scene.recording.layers[0].q)
    assert b"<svg" in (tmp_path / "a.svg").read_bytes()
    assert TEXT.split()[4].encode() in (tmp_path / "a.html").read_bytes()


@pytest.mark.parametrize("light", [False, True])
def test_a_screen_is_written_as_it_is_seen(light: bool, tmp_path: Path) -> None:
    made = session(record(open_source("toy"), TEXT), size=(80, 24))
    screen = replace(made.scene.screen, light=light)
    made.resize(screen)
    made.outside = replace(made.outside, picture=partial(_draw, screen))
    request = typed(made, f":write {tmp_path / 'all.svg'}")
    assert request is not None and not made.message
    made.draw(seen(made), request.words)
    assert made.message == f"wrote {tmp_path / 'all.svg'}"
    image = ElementTree.fromstring((tmp_path / "all.svg").read_text("utf-8"))
    rects = list(image.iter("{http://www.w3.org/2000/svg}rect"))
    assert rects[0].get("fill") == ("#ffffff" if light else "#0d1117") and len(rects) > 4
    text = " ".join(" ".join(image.itertext()).split())
    assert "toy:minilm · 1 layer, 4 heads" in text and "? keys" not in text


def test_an_existing_file_is_replaced_on_enter_alone(explorer: Session, tmp_path: Path) -> None:
    path = tmp_path / "seen.csv"
    path.write_text("mine")
    typed(explorer, f":write {path}")
    assert explorer.entry is not None
    assert "exists" in explorer.entry.prompt
    explorer.press("escape")
    assert path.read_text() == "mine"
    typed(explorer, f":write {path}")
    explorer.press("enter")
    assert explorer.message == f"wrote {path}"
    assert path.read_text() != "mine"


def test_a_file_that_cannot_be_written_is_said(explorer: Session, tmp_path: Path) -> None:
    for name in ("no-such-folder/a.csv", "a.bank"):
        typed(explorer, f":write {tmp_path / name}")
        assert explorer.message
        assert "wrote" not in explorer.message


def test_a_recording_opens_without_torch(file: str) -> None:
    with Terminal(command=[sys.executable, "-c", MODULES.format(file=file)]) as terminal:
        terminal.wait("toy:minilm · 1 layer, 4 heads · 6 tokens")
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
    monkeypatch.setattr("attn_cli.explore.app.run", lambda session: pytest.fail("it was drawn"))


@pytest.mark.usefixtures("in_a_terminal")
def test_wrong_words_are_answered_before_anything_is_drawn(file: str, tmp_path: Path) -> None:
    env = {"TERM": "xterm"}
    refused(attn("explore", file, "-m", "gpt2", env=env), 2, "is a recording, and --model was given")
    refused(attn("explore", "another text", "-m", file, env=env), 2, "reads no other")
    refused(attn("explore", TEXT, "-l", "9", env=env), 2, "there is no attention layer 9")
    bad = tmp_path / "bad.attn"
    bad.write_bytes(b"not a recording")
    assert attn("explore", bad, env=env).code in (2, 3)


@pytest.mark.usefixtures("in_a_terminal")
def test_a_layer_for_which_memory_was_short_is_read_with_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions: list[Session] = []
    monkeypatch.setattr("attn_cli.explore.app.run", lambda session: sessions.append(session) or 0)
    monkeypatch.setattr("attn_cli.cli.explore.free_memory", lambda: 8)
    assert attn("explore", TEXT, env={"TERM": "xterm"}).code == 0
    made = sessions[0]
    assert not made.scene.recording.layers[0].is_kept and made.missing_layer is None
    made.press("2", "2")
    assert made.missing_layer == 0 and made.outside.read_layer is not None
    layer = made.outside.read_layer(made.scene.recording, 0, lambda: None)
    np.testing.assert_array_equal(layer.q, record(open_source("toy"), TEXT).layers[0].q)
    made.replace_layer(0, layer)
    assert made.missing_layer is None and made.scene.picture(made.view).values.shape == (6, 6)
