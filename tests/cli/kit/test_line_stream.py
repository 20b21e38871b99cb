"""Lines of a pipe come as they are written: a batch never waits for more."""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest

from attn_cli.cli.kit.options.command import TextCommandOptions
from attn_cli.cli.kit.run.loop import next_window
from attn_cli.cli.kit.run.text_run import CommandPlan, ReadText, TextRun
from attn_cli.cli.kit.run.texts import LineStream, Texts
from attn_cli.cli.kit.stderr import TextNotes
from attn_cli.sources import open_source


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        with suppress(OSError):  # a test may have closed it
            os.close(end)


def test_lines_are_there_when_they_end(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    stream = LineStream(reading)
    os.write(writing, b"one\ntw")
    assert stream.has_line()
    assert stream.readline(100) == b"one\n"
    assert not stream.has_line()
    os.write(writing, b"o\n\nlast")
    assert [stream.readline(100), stream.readline(100)] == [b"two\n", b"\n"]
    os.close(writing)
    assert stream.has_line()
    assert [stream.readline(100), stream.readline(100)] == [b"last", b""]


def test_a_line_without_an_end_is_cut(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    os.write(writing, b"a" * 5000)
    assert len(LineStream(reading).readline(1000)) >= 1000


def test_what_is_there_is_answered(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = pipe
    source = open_source("toy")
    monkeypatch.setattr(source, "batch_size", 8)
    with os.fdopen(os.dup(reading)) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        texts = Texts("-", None, lines=True)
        reader = TextRun("heads", TextCommandOptions(lines=True), source, None, CommandPlan(lambda rows, call: []))

        def read(*, lines: bool = True) -> list[str]:
            window = next_window(
                texts, reader.read, 0, notes=TextNotes(lines=lines, quiet=True), has_room=reader.has_room
            )
            return [each.prompt.text for each in window if isinstance(each, ReadText)]

        os.write(writing, b"river\n")
        assert read() == ["river"]  # would wait for ever if it asked for more
        os.write(writing, b"bank\nmoney\n")
        assert read() == ["bank", "money"]
        os.write(writing, b"\xff\nriver bank\n" + b"water " * 300 + b"\n" + b"bank\n" * 9)
        assert read() == ["river bank", ("water " * 300), *["bank"] * 5]  # 8 lines: one is long, one no text
        os.close(writing)
        assert read(lines=False) == ["bank"]
        assert read() == ["bank"] * 3
        assert read() == []
